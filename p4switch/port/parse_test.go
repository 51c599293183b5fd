package port

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// FuzzChecksum compares with a sum over the pseudo-header made apart from the
// frame, and looks that nothing else is written.
func FuzzChecksum(f *testing.F) {
	udp := append(make([]byte, 12), 8, 0, 0x45, 0, 0, 31, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 1, 2, 3, 4, 0, 11, 9, 9, 'a', 'b', 'c')
	f.Add(udp)
	tcp := append(make([]byte, 12), 0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, 6, 64)
	f.Add(append(tcp, make([]byte, 52)...))
	f.Add(append(append(make([]byte, 12), 0x81, 0, 0, 7), udp[12:]...))
	f.Fuzz(func(t *testing.T, b []byte) {
		got := bytes.Clone(b)
		if !completeChecksum(got) {
			if !bytes.Equal(got, b) {
				t.Error("a frame without a checksum was changed")
			}
			return
		}
		at := 12
		for typ := binary.BigEndian.Uint16(b[at:]); typ == 0x8100 || typ == 0x88a8; typ = binary.BigEndian.Uint16(b[at:]) {
			at += 4
		}
		at += 2
		var pseudo, segment []byte
		if b[at]>>4 == 4 {
			end := at + int(binary.BigEndian.Uint16(b[at+2:]))
			segment = got[at+int(b[at]&15)*4 : end]
			pseudo = append(bytes.Clone(b[at+12:at+20]), 0, b[at+9])
		} else {
			segment = got[at+40 : at+40+int(binary.BigEndian.Uint16(b[at+4:]))]
			pseudo = append(bytes.Clone(b[at+8:at+40]), 0, b[at+6])
		}
		pseudo = append(pseudo, byte(len(segment)>>8), byte(len(segment)))
		all := append(pseudo, segment...)
		if len(all)%2 != 0 {
			all = append(all, 0)
		}
		sum := uint64(0)
		for i := 0; i < len(all); i += 2 {
			sum += uint64(all[i])<<8 | uint64(all[i+1])
		}
		if sum%0xffff != 0 {
			t.Errorf("the checksum does not verify: % x", got)
		}
		changed := 0
		for i := range b {
			if b[i] != got[i] {
				changed++
			}
		}
		if changed > 2 {
			t.Errorf("%d bytes were changed", changed)
		}
	})
}
