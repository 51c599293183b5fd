package frame

import (
	"encoding/hex"
	"errors"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestParseQuench(t *testing.T) {
	src := netip.MustParseAddr("10.1.2.3")
	// By hand, from the layout: version, flags, label, switch, port, reserved,
	// epoch, destination QP, PSN.
	payload, err := hex.DecodeString("01" + "03" + "000a" + "00000015" + "0003" + "0000" + "00000007" + "ff00abcd" + "ff123456")
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseQuench(payload, netip.MustParseAddr("::ffff:10.1.2.3"))
	if err != nil {
		t.Fatal(err)
	}
	want := Quench{Dst: src, Rerouted: true, Labelled: true, Label: 10, Switch: 21, Port: 3, Epoch: 7, DstQP: 0xabcd, PSN: 0x123456}
	if d := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{})); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	for name, edit := range map[string]func([]byte) []byte{
		"short":   func(b []byte) []byte { return b[:23] },
		"long":    func(b []byte) []byte { return append(b, 0) },
		"empty":   func([]byte) []byte { return nil },
		"version": func(b []byte) []byte { b[0] = 2; return b },
		"epoch":   func(b []byte) []byte { clear(b[12:16]); return b },
		"switch":  func(b []byte) []byte { b[4] = 0x80; return b },
		"notice":  func(b []byte) []byte { b[1] |= quenchNotice; return b }, // of a host, not from nowhere
	} {
		if _, err := ParseQuench(edit(append([]byte(nil), payload...)), src); !errors.Is(err, ErrQuench) {
			t.Errorf("%s: error %v, want ErrQuench", name, err)
		}
	}
}
