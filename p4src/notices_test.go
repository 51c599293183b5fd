package p4src

import (
	"encoding/binary"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// TestNoticeHashes: ports of one switch, and equal ports of several, never share an entry
// of notice_last, which is by crc16 of switch and port; of all pairs of a fabric few do.
// docs/architecture.md says what that does.
func TestNoticeHashes(t *testing.T) {
	for _, c := range []struct {
		spec fabric.Spec
		most float64 // share of pairs
	}{
		{fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 16, Spines: 16, HostsPerToR: 16}, 0.0021},
		{fabric.Spec{Kind: fabric.KindFatTree, K: 16}, 0.0012},
		{fabric.Spec{Kind: fabric.KindFatTree, K: 32}, 0.0004},
	} {
		f, err := fabric.New(c.spec)
		if err != nil {
			t.Fatal(err)
		}
		entries, ends := map[uint16][]fabric.End{}, 0
		for i := range f.Links() {
			l := f.Link(fabric.LinkID(i))
			if int(l.A.Node) < f.Hosts() || int(l.B.Node) < f.Hosts() {
				continue // hosts' ports have no notices
			}
			for _, e := range []fabric.End{l.A, l.B} {
				ends++
				key := binary.BigEndian.AppendUint32(nil, uint32(e.Node))
				entry := crc16(binary.BigEndian.AppendUint16(key, uint16(e.Port)))
				for _, other := range entries[entry] {
					if other.Node == e.Node || other.Port == e.Port {
						t.Errorf("%s: %+v and %+v share an entry", f.Spec().Kind, other, e)
					}
				}
				entries[entry] = append(entries[entry], e)
			}
		}
		pairs := 0
		for _, es := range entries {
			pairs += len(es) * (len(es) - 1) / 2
		}
		share := float64(pairs) / (float64(ends) * float64(ends-1) / 2)
		t.Logf("%s of %d hosts: %d ports, %d pairs share an entry, %.2g of all", f.Spec().Kind, f.Hosts(), ends, pairs, share)
		if share > c.most {
			t.Errorf("%g of all pairs share an entry; docs/architecture.md says %g", share, c.most)
		}
	}
}

// crc16 is the program's: polynomial 0x8005, reflected.
func crc16(b []byte) (c uint16) {
	for _, x := range b {
		c ^= uint16(x)
		for range 8 {
			if c&1 == 1 {
				c = c>>1 ^ 0xA001
			} else {
				c >>= 1
			}
		}
	}
	return c
}
