package hostagent

import (
	"net/netip"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// TestNotice: a notice is believed where the port is on a path of this host's, whether or not it has
// been used, by the host whose packets leave by it, within the limits of quenches.
func TestNotice(t *testing.T) {
	f := mustFabric(t, specs[1]) // a fat-tree
	if !f.ThreeTier() {
		t.Fatal("the fabric has two tiers")
	}
	c := mustCore(t, Config{Fabric: f})
	tor, agg := f.ToRID(0), f.AggID(0)
	far := f.AggID(f.Spec().AggsPerPod) // of the next pod
	up := f.Node(tor).FirstUplink()
	for _, tt := range []struct {
		name  string
		node  fabric.NodeID
		port  fabric.PortNo
		epoch uint32
		want  Verdict
	}{
		{"own uplink", tor, up, 1, Believed},
		{"again", tor, up, 1, Known},
		{"the port of an own path, as its far end says", agg, 1, 1, NotOurs},
		{"down to another ToR of the pod", agg, 2, 1, Believed},
		{"another ToR's uplink", f.ToRID(1), up, 1, NotOurs},
		{"uplink of another pod", far, f.Node(far).FirstUplink(), 1, NotOurs},
		{"down from a core to another pod", f.CoreID(0), 2, 1, Believed},
		{"down from a core to the own pod", f.CoreID(0), 1, 1, NotOurs},
		{"to a host", tor, 1, 1, NotOurs},
		{"no such port", tor, 99, 1, NotOurs},
	} {
		if got := c.Quench(1, frame.Quench{Notice: true, Switch: tt.node, Port: tt.port, Epoch: tt.epoch}); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	for port := up; int(port) <= f.Node(tor).Ports(); port++ {
		c.Quench(2, frame.Quench{Notice: true, Switch: tor, Port: port, Epoch: 3})
	}
	if good := c.GoodPaths(fabric.NodeID(f.Hosts() - 1)); len(good) != 1 {
		t.Errorf("all uplinks are noticed dead: good paths %v, want the last one kept", good)
	}
	checkInvariants(t, c)
}

// FuzzQuench checks that no quench datagram harms a core that has traffic.
func FuzzQuench(f *testing.F) {
	q := frame.Quench{Switch: 16, Port: 3, Epoch: 1, Label: 2, Labelled: true}
	f.Add(q.Append(nil), uint32(0x0a010002))
	q.Notice, q.Switch, q.Port = true, 32, 3
	f.Add(q.Append(nil), uint32(0))
	f.Fuzz(func(t *testing.T, payload []byte, src uint32) {
		q, err := frame.ParseQuench(payload, netip.AddrFrom4([4]byte{byte(src >> 24), byte(src >> 16), byte(src >> 8), byte(src)}))
		if err != nil {
			return
		}
		if again, err := frame.ParseQuench(q.Append(nil), q.Dst); err != nil || again != q {
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

// TestQuenchLimitRebased: the rate limit is of the time since, whatever a clock shows.
func TestQuenchLimitRebased(t *testing.T) {
	f := mustFabric(t, specs[1])
	c := mustCore(t, Config{Fabric: f, QuenchBurst: 1})
	q := frame.Quench{Notice: true, Switch: f.ToRID(0), Port: f.Node(f.ToRID(0)).FirstUplink(), Epoch: 1}
	now := 3600 * fabric.Second
	if v := c.Quench(now, q); v != Believed {
		t.Fatalf("the first: %v", v)
	}
	c.Rebase(now)
	q.Port++
	for at, want := range []Verdict{RateLimited, Believed} {
		if v := c.Quench(fabric.Time(at)*DefaultQuenchInterval, q); v != want {
			t.Errorf("%d intervals after the first: %v, want %v", at, v, want)
		}
	}
}
