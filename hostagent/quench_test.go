package hostagent

import (
	"encoding/hex"
	"errors"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ethereal-fabric/ethereal/fabric"
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
		if got := c.Quench(1, Quench{Notice: true, Switch: tt.node, Port: tt.port, Epoch: tt.epoch}); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	for port := up; int(port) <= f.Node(tor).Ports(); port++ {
		c.Quench(2, Quench{Notice: true, Switch: tor, Port: port, Epoch: 3})
	}
	if good := c.GoodPaths(fabric.NodeID(f.Hosts() - 1)); len(good) != 1 {
		t.Errorf("all uplinks are noticed dead: good paths %v, want the last one kept", good)
	}
	checkInvariants(t, c)
}

// FuzzQuench checks that no quench datagram harms a core that has traffic.
func FuzzQuench(f *testing.F) {
	q := Quench{Switch: 16, Port: 3, Epoch: 1, Label: 2, Labelled: true}
	f.Add(q.Append(nil), uint32(0x0a010002))
	q.Notice, q.Switch, q.Port = true, 32, 3
	f.Add(q.Append(nil), uint32(0))
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

// TestQuenchLimitRebased: the rate limit is of the time since, whatever a clock shows.
func TestQuenchLimitRebased(t *testing.T) {
	f := mustFabric(t, specs[1])
	c := mustCore(t, Config{Fabric: f, QuenchBurst: 1})
	q := Quench{Notice: true, Switch: f.ToRID(0), Port: f.Node(f.ToRID(0)).FirstUplink(), Epoch: 1}
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
