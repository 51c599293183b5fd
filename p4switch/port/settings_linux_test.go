package port

import (
	"encoding/binary"
	"testing"
)

func TestParseSettings(t *testing.T) {
	for _, c := range []struct {
		low, high uint16
		autoneg   byte
		mbps      uint32
	}{{10000, 0, 0, 10000}, {0x1a80, 6, 1, 400000}, {0xffff, 0xffff, 1, 0}} {
		var b [44]byte
		binary.NativeEndian.PutUint16(b[12:], c.low)
		binary.NativeEndian.PutUint16(b[28:], c.high)
		b[18] = c.autoneg
		if mbps, autoneg := parseSettings(&b); mbps != c.mbps || autoneg != (c.autoneg == 1) {
			t.Errorf("%+v: %d Mb/s, negotiated %v", c, mbps, autoneg)
		}
	}
}
