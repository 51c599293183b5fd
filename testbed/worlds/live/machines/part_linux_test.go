package machines

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// FuzzPlan: another machine's plan is read or refused, and what was read is a
// fabric with this machine in it, or none.
func FuzzPlan(f *testing.F) {
	var good bytes.Buffer
	err := writePlan(&good, &plan{
		Build: "b", Spec: fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 2, HostsPerToR: 1},
		Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")}, Machine: 1, Payload: 4096, VXLANPort: 4789,
		Files: map[string][]byte{"ca.pem": []byte("x")},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good.Bytes())
	f.Add([]byte("2\n{}"))
	f.Add([]byte("99999999999\n{}"))
	f.Add([]byte(`100` + "\n" + `{"spec":{"kind":"fat-tree","k":4},"addresses":["::1"],"machine":-1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		text, p, err := readPlan(bytes.NewReader(data))
		if err != nil {
			return
		}
		if len(text) > len(data) {
			t.Fatalf("%d bytes of %d", len(text), len(data))
		}
		if place, err := p.place(); err == nil && place.Fabric.Nodes() == 0 {
			t.Fatal("a fabric without nodes")
		}
	})
}
