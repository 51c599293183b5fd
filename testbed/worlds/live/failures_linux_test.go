package live

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
	"github.com/ethereal-fabric/ethereal/testbed/deployment"
)

// oneLink is a fabric of which only a link between switches is there, in a network namespace of its own.
func oneLink(t *testing.T) (x *Fabric, id fabric.LinkID) {
	t.Helper()
	systemtest.Only(t)
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 1, HostsPerToR: 1})
	if err != nil {
		t.Fatal(err)
	}
	if id, err = f.LinkByName("tor0-spine0"); err != nil {
		t.Fatal(err)
	}
	x = &Fabric{f: f, mtu: MTU(4096), log: slog.New(slog.DiscardHandler), wires: make([][2]*wire, f.Links())}
	if x.thread, err = newThread(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.thread.close)
	err = x.thread.do(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("a network namespace: %w", err)
		}
		if x.thread.home, err = ownNamespace(); err != nil {
			return err
		}
		x.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE)
		return err
	})
	if err == nil {
		t.Cleanup(x.handle.Close)
		err = x.connect(f.Link(id))
	}
	if err != nil {
		t.Skip(err)
	}
	return x, id
}

// TestGrayAndRate: on a link that loses packets and is slow, too, the end of either leaves the other.
func TestGrayAndRate(t *testing.T) {
	systemtest.Only(t)
	x, id := oneLink(t)
	if err := x.do(t.Context(), deployment.Order{Do: "gray", Name: "tor0-spine0", Loss: 0.5}); err != nil {
		t.Skip(err) // a kernel before 6.6
	}
	own := x.rate(x.f.Link(id))
	expect := func(when string, rate fabric.Rate, losses int) {
		t.Helper()
		for _, w := range x.wires[id] {
			err := x.thread.do(func() error {
				there, err := link.QueryPrograms(link.QueryOptions{Target: w.index, Attach: ebpf.AttachTCXEgress})
				if err == nil && len(there.Programs) != losses {
					err = fmt.Errorf("%d programs, want %d", len(there.Programs), losses)
				}
				return err
			})
			if err != nil {
				t.Errorf("%s: %s: %v", when, w.name, err)
			}
			qs, err := x.handle.QdiscList(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: w.index}})
			if q, ok := qs[0].(*netlink.Tbf); err != nil || !ok || q.Rate != uint64(rate/8) {
				t.Errorf("%s: %s: %+v, want %d B/s: %v", when, w.name, qs, rate/8, err)
			}
		}
	}
	for _, step := range []struct {
		what   deployment.Order
		rate   fabric.Rate
		losses int
	}{
		{deployment.Order{Do: "rate", Rate: 8e6}, 8e6, 1},
		{deployment.Order{Do: "gray"}, 8e6, 0},
		{deployment.Order{Do: "gray", Loss: 0.1}, 8e6, 1},
		{deployment.Order{Do: "rate"}, own, 1},
		{deployment.Order{Do: "rate", Rate: 16e6}, 16e6, 1},
		{deployment.Order{Do: "gray", Loss: 1}, 8000, 1}, // all: a bucket into which no packet fits
		{deployment.Order{Do: "gray"}, 16e6, 0},
		{deployment.Order{Do: "rate"}, own, 0},
	} {
		step.what.Name = "tor0-spine0"
		if err := x.do(t.Context(), step.what); err != nil {
			t.Fatalf("%+v: %v", step.what, err)
		}
		expect(fmt.Sprintf("%+v", step.what), step.rate, step.losses)
	}
	if err := x.do(t.Context(), deployment.Order{Do: "rate", Name: "tor0-spine0", Rate: -1}); err == nil {
		t.Error("a rate below 0 is taken")
	}
}
