//go:build linux

package differential

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent/rocev2"
	"github.com/ethereal-fabric/ethereal/hostagent/usid"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
	"github.com/ethereal-fabric/ethereal/testbed/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/testbed/p4switch/routes"
	"github.com/ethereal-fabric/ethereal/testbed/port"
	"github.com/ethereal-fabric/ethereal/testbed/port/porttest"
)

// hop is a packet at a switch, and where the program sends it.
type hop struct {
	from, to  uint32
	data, out []byte
	label     fabric.Label
}

// crowd is a fabric of switches in the interpreter.
type crowd struct {
	f        *fabric.Fabric
	switches map[fabric.NodeID]*ours
}

func newCrowd(t *testing.T) *crowd {
	t.Helper()
	program, f, schema, _ := ourProgram(t)
	c := &crowd{f: f, switches: map[fabric.NodeID]*ours{}}
	for i := range f.Switches() {
		id := fabric.NodeID(f.Hosts() + i)
		d, err := NewOurs(program)
		if err != nil {
			t.Fatal(err)
		}
		writeTables(t, d, schema, f, id, controller.Config{CarrierV6: controller.MicroSegments})
		c.switches[id] = d.(*ours)
	}
	return c
}

// at returns the packets that come by a switch when every host sends one to every other with every label, and what the
// program makes of each there.
func (c *crowd) at(t *testing.T, node fabric.NodeID) (out []hop) {
	t.Helper()
	for src := range fabric.NodeID(c.f.Hosts()) {
		e, err := usid.New(c.f, src)
		if err != nil {
			t.Fatal(err)
		}
		for dst := range fabric.NodeID(c.f.Hosts()) {
			if src == dst {
				continue
			}
			for _, l := range append(c.f.PathLabels(c.f.ToROf(src), c.f.ToROf(dst)), c.f.LabelSpan()) {
				out = append(out, c.walk(t, node, src, wrapped(t, c.f, e, src, dst, l), l)...)
			}
		}
	}
	return out
}

// wrapped is a RoCEv2 packet, IPv6 to every other host, in an outer header that a label makes; one that names no path makes none.
func wrapped(t *testing.T, f *fabric.Fabric, e *usid.Encapsulator, src, dst fabric.NodeID, l fabric.Label) []byte {
	t.Helper()
	s := rocev2.Stack{
		DstMAC: f.MAC(f.ToROf(src)), SrcMAC: f.MAC(src), Src: f.HostAddr4(src), Dst: f.HostAddr4(dst), TrafficClass: 2, TTL: 64,
		SourcePort: rocev2.SourcePort(l), BTH: rocev2.BTHFields{Opcode: rocev2.WriteOnly}, PayloadLen: 100,
	}
	if dst%2 == 1 {
		s.Src, s.Dst = f.HostAddr6(src), f.HostAddr6(dst)
	}
	b := make([]byte, s.FrameLen(), s.FrameLen()+usid.HeaderSize)
	if _, err := s.Encode(b); err != nil {
		t.Fatal(err)
	}
	return b[:e.Wrap(b[:cap(b)], len(b), len(b))]
}

// walk follows a packet to its host, and returns what happens to it at a switch.
func (c *crowd) walk(t *testing.T, node, src fabric.NodeID, data []byte, label fabric.Label) (out []hop) {
	t.Helper()
	l := c.f.Link(c.f.Node(src).Link(1))
	for at := l.Peer(src); c.f.Node(at.Node).Tier != fabric.Host; {
		h := hop{from: uint32(at.Port), data: bytes.Clone(data), label: label}
		n := 0
		c.switches[at.Node].sw.Process(interp.Input{Port: h.from, Data: data, Length: len(data)}, func(o interp.Output) {
			h.to, h.out = o.Port, bytes.Clone(o.Data)
			n++
		})
		if n != 1 {
			t.Fatalf("%s sends %d packets of one", c.f.Name(at.Node), n)
		}
		if at.Node == node {
			mac := c.f.MAC(node) // the program leaves addresses as they are, until a host's
			copy(h.data, mac[:])
			out = append(out, h)
		}
		at, data = c.f.Link(c.f.Node(at.Node).Link(fabric.PortNo(h.to))).Peer(at.Node), h.out
	}
	return out
}

// router is a Linux router whose routes follow a switch's tables, and the far ends of its links.
type router struct {
	mirror *routes.Mirror
	poller *port.Poller
	far    []*port.Interface // by port - 1
}

func newRouter(t *testing.T, c *crowd, node fabric.NodeID) *router {
	t.Helper()
	systemtest.Only(t)
	ns := porttest.Enter(t)
	r := new(router)
	var cfg routes.Config
	var err error
	if r.poller, err = port.NewPoller(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.poller.Close() }) //nolint:errcheck // nothing is left to do
	mac := c.f.MAC(node)
	for p := fabric.PortNo(1); int(p) <= c.f.Node(node).Ports(); p++ {
		near, away := fmt.Sprintf("near%d", p), fmt.Sprintf("far%d", p)
		ns.Veth(t, near, away, 2000)
		l, err := netlink.LinkByName(near)
		if err == nil {
			err = netlink.LinkSetHardwareAddr(l, net.HardwareAddr(mac[:]))
		}
		if err != nil {
			t.Fatal(err)
		}
		peer := c.f.MAC(c.f.Link(c.f.Node(node).Link(p)).Peer(node).Node)
		cfg.Ports = append(cfg.Ports, routes.Port{Number: uint32(p), Interface: near, Index: l.Attrs().Index, Neighbour: peer})
		i, err := port.OpenInterface(away, port.InterfaceOptions{})
		if err == nil {
			err = r.poller.Add(i, int(p))
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { i.Close() }) //nolint:errcheck // nothing is left to do
		r.far = append(r.far, i)
	}
	if r.mirror, err = routes.Open(cfg); errors.Is(err, unix.EROFS) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOENT) {
		t.Skipf("the kernel's routes cannot be set up here: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	for _, p := range cfg.Ports {
		r.mirror.SetPort(p.Number, true)
	}
	t.Cleanup(func() {
		if err := r.mirror.Close(); err != nil {
			t.Error(err)
		}
	})
	r.mirror.Use(c.switches[node].sw)
	r.sync(t)
	return r
}

func (r *router) sync(t *testing.T) {
	t.Helper()
	if err := r.mirror.Sync(); errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) {
		t.Skipf("the kernel does not know these routes; Linux 6.6 does: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
}

// send has a packet come in by a port, and returns where it leaves and as what. What the kernel sends of its own is none.
func (r *router) send(t *testing.T, from uint32, data []byte) (to uint32, out []byte) {
	t.Helper()
	if r.far[from-1].Send([][]byte{data}) != 1 {
		t.Fatal("a packet was not taken")
	}
	for deadline := time.Now().Add(time.Minute); out == nil; {
		for i, p := range r.far {
			p.Receive(16, func(b []byte) {
				if b[0]&1 == 0 && !bytes.Equal(b, data) {
					to, out = uint32(i+1), bytes.Clone(b)
				}
			})
		}
		if out == nil && time.Now().After(deadline) {
			t.Fatalf("a packet from port %d is lost: %x", from, data)
		}
		if out == nil {
			if _, err := r.poller.Wait(time.Second, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	return to, out
}

// TestRoutes: a Linux router whose routes follow a switch's tables sends every packet where the program would, and as the
// program would from the outer header on. Where either balances, only that it goes up is the same. With a dead uplink,
// what would go by it loses its outer header and goes by the other.
func TestRoutes(t *testing.T) {
	c := newCrowd(t)
	for _, node := range []fabric.NodeID{c.f.ToRID(0), c.f.AggID(0), c.f.CoreID(0)} {
		t.Run(c.f.Name(node), func(t *testing.T) {
			r := newRouter(t, c, node)
			hops := c.at(t, node)
			mac := c.f.MAC(node)
			balanced := 0
			for _, h := range hops {
				to, out := r.send(t, h.from, h.data)
				if h.label == c.f.LabelSpan() && c.up(node, h.to) {
					balanced++
					h.to = to
				}
				if to != h.to || !bytes.Equal(out[14:], h.out[14:]) {
					t.Fatalf("from port %d, label %d: by port %d, the program by %d:\n%s", h.from, h.label, to, h.to, cmp.Diff(out[14:], h.out[14:]))
				}
				peer := c.f.MAC(c.f.Link(c.f.Node(node).Link(fabric.PortNo(to))).Peer(node).Node)
				if !bytes.Equal(out[:12], slices.Concat(peer[:], mac[:])) {
					t.Fatalf("MAC addresses %x, want %x and %x", out[:12], peer, mac)
				}
			}
			t.Logf("%d packets by %d routes, %d of them balanced", len(hops), r.mirror.Routes(), balanced)
			c.deadUplink(t, r, node, hops)
		})
	}
}

// up reports whether a port leads up.
func (c *crowd) up(node fabric.NodeID, port uint32) bool {
	peer := c.f.Link(c.f.Node(node).Link(fabric.PortNo(port))).Peer(node).Node
	return c.f.Node(peer).Tier > c.f.Node(node).Tier
}

// deadUplink has the last uplink die: labelled packets for it go by the others without their outer header.
func (c *crowd) deadUplink(t *testing.T, r *router, node fabric.NodeID, hops []hop) {
	t.Helper()
	dead := uint32(c.f.Node(node).Ports())
	if !c.up(node, dead) {
		return
	}
	r.mirror.SetPort(dead, false)
	r.sync(t)
	moved := 0
	for _, h := range hops {
		if h.to != dead || h.label == c.f.LabelSpan() {
			continue
		}
		moved++
		inner := h.data[14+usid.HeaderSize:]
		to, out := r.send(t, h.from, h.data)
		if !c.up(node, to) || to == dead || len(out) != 14+len(inner) || !bytes.Equal(out[len(out)-100:], inner[len(inner)-100:]) {
			t.Fatalf("from port %d, label %d: by port %d, %d bytes; want %d by another uplink than %d", h.from, h.label, to, len(out),
				14+len(inner), dead)
		}
	}
	if moved == 0 {
		t.Error("no packet was for the dead uplink")
	}
	r.mirror.SetPort(dead, true)
	r.sync(t)
	h := hops[slices.IndexFunc(hops, func(h hop) bool { return h.to == dead && h.label != c.f.LabelSpan() })]
	if to, _ := r.send(t, h.from, h.data); to != dead {
		t.Errorf("with the uplink back, by port %d; want %d", to, dead)
	}
}
