package hostagent

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
	} {
		if _, err := ParseQuench(edit(append([]byte(nil), payload...)), src); !errors.Is(err, ErrQuench) {
			t.Errorf("%s: error %v, want ErrQuench", name, err)
		}
	}
}

// FuzzQuench checks that no quench datagram harms a core that has traffic.
func FuzzQuench(f *testing.F) {
	q := Quench{Switch: 16, Port: 3, Epoch: 1, Label: 2, Labelled: true}
	f.Add(q.Append(nil), uint32(0x0a010002))
	f.Fuzz(func(t *testing.T, payload []byte, src uint32) {
		q, err := ParseQuench(payload, netip.AddrFrom4([4]byte{byte(src >> 24), byte(src >> 16), byte(src >> 8), byte(src)}))
		if err != nil {
			return
		}
		if again, err := ParseQuench(q.Append(nil), q.Dst); err != nil || again != q {
			t.Fatalf("%+v, written and read again: %+v, %v", q, again, err)
		}
		c := mustCore(t, Config{Fabric: mustFabric(t, specs[0])})
		if err := c.Post(0, []Flow{{Dst: 15, Bytes: 1000}, {Dst: 2, Bytes: 1000}}); err != nil {
			t.Fatal(err)
		}
		c.Quench(1, q)
		checkInvariants(t, c)
	})
}
