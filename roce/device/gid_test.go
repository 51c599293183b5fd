//go:build linux

package device

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// TestFindHost: a link-local GID's interface identifier leads to its host, any other to none.
func TestFindHost(t *testing.T) {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 3, Spines: 2, HostsPerToR: 4})
	if err != nil {
		t.Fatal(err)
	}
	n := &NIC{cfg: Config{Fabric: f}}
	for h := range fabric.NodeID(f.Hosts()) {
		a, err := n.findHost(interfaceID(f, h))
		if want := f.HostAddr4(h); err != nil || addrOf(uint32(a)) != want {
			t.Errorf("%s: %v, %v, want %v", f.Name(h), addrOf(uint32(a)), err, want)
		}
	}
	tor := fabric.NodeID(f.Hosts())
	for _, id := range []uint64{0, ^uint64(0), interfaceID(f, 3) ^ 1<<63, interfaceID(f, 3) ^ 1<<24, interfaceID(f, tor)} {
		if a, err := n.findHost(id); !errors.Is(err, unix.ENOENT) {
			t.Errorf("%#x: %v, %v", id, addrOf(uint32(a)), err)
		}
	}
}
