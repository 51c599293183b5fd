package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/vishvananda/netlink"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/p4switch/port"
	"github.com/ethereal-fabric/ethereal/roce/frame"
	"github.com/ethereal-fabric/ethereal/testbed/host"
	"github.com/ethereal-fabric/ethereal/testbed/hostproto"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/coordinator"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/live"
)

// TestForgedQuenches: a host that gets forged quenches about the links it uses still gets its message through, on a
// path that is whole. The victim is the first host. The forger has taken over the first spine, since switches drop what
// hosts forge; a quench is one datagram, 2,000 a second.
func TestForgedQuenches(t *testing.T) {
	spec := fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 4, HostsPerToR: 2}
	f, b, _ := newBench(t, spec, 20e6, 4096, live.Notifiers{Quench: true, GNMI: true})
	if b == nil {
		return
	}
	ctx, s := t.Context(), b.Session
	const victim, peer = 0, 3
	for _, attack := range []struct {
		name  string
		forge func(*forger) (q frame.Quench, from fabric.NodeID, payload []byte)
		check func(t *testing.T, v *hostproto.Stats)
	}{
		{"random", (*forger).random, func(*testing.T, *hostproto.Stats) {}},
		{"targeted", (*forger).targeted, func(t *testing.T, v *hostproto.Stats) {
			if v.Verdicts[hostagent.Believed] == 0 { // by their form they are true
				t.Errorf("none is believed, of %d: it says nothing that the message arrives", v.Quenches)
			}
		}},
		{"replay", (*forger).replay, func(t *testing.T, v *hostproto.Stats) {
			if v.Verdicts[hostagent.Known]+v.Verdicts[hostagent.Stale] == 0 {
				t.Errorf("none is known: %v", v.Verdicts)
			}
		}},
		{"malformed", (*forger).malformed, func(t *testing.T, v *hostproto.Stats) {
			if v.BadQuench+v.BadFrame == 0 {
				t.Error("none was refused")
			}
		}},
	} {
		t.Run(attack.name, func(t *testing.T) {
			set := host.Settings{
				Seed: 1, Payload: 4096, RTO: 100 * fabric.Millisecond, FailedMemory: 100 * fabric.Millisecond, Rate: 20e6,
				ResendOnFlip: true, TailProbe: true,
				Losses: hostagent.LossTest{Off: true}, // these switches mark nothing
			}
			if err := s.Configure(ctx, set); err != nil {
				t.Fatal(err)
			}
			forging, stop := context.WithCancel(ctx)
			sent, g := make(chan error, 1), newForger(f, victim, peer)
			g.at, g.port = f.CoreID(0), live.InterfaceName(f, fabric.End{Node: f.CoreID(0), Port: 1})
			go func() { sent <- g.run(forging, b.Fabric, attack.forge) }()
			defer func() {
				stop()
				if err := <-sent; err != nil {
					t.Error(err)
				}
			}()
			select {
			case <-g.began: // on a busy machine a socket is opened for longer than a message takes
			case <-time.After(time.Minute):
				t.Fatal("the forger has not begun")
			}
			if v := transfer(t, s, victim, peer, 1e6); v.Quenches+v.BadQuench+v.BadFrame == 0 {
				t.Fatal("no quench has reached the victim")
			} else {
				attack.check(t, v)
			}
		})
	}
}

// uplinkBytes returns what the uplinks of a host's ToR have sent.
func uplinkBytes(t *testing.T, f *fabric.Fabric, x *live.Fabric, host fabric.NodeID) (sent []uint64) {
	t.Helper()
	tor := f.ToROf(host)
	err := x.In(tor, func() error {
		for p := f.Node(tor).FirstUplink(); int(p) <= f.Node(tor).Ports(); p++ {
			l, err := netlink.LinkByName(live.InterfaceName(f, fabric.End{Node: tor, Port: p}))
			if err != nil {
				return err
			}
			sent = append(sent, l.Attrs().Statistics.TxBytes)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return sent
}

// transfer sends a message from the victim to its peer, and returns what the victim counted meanwhile.
func transfer(t *testing.T, s *coordinator.Session, victim, peer int, bytes int64) *hostproto.Stats {
	t.Helper()
	v := send(t, s, victim, peer, bytes)
	t.Logf("%d quenches, %d malformed, verdicts %v, %d flips, %d time-outs", v.Quenches, v.BadQuench+v.BadFrame, v.Verdicts,
		v.Flips, v.Timeouts)
	return v
}

// send is transfer, and logs nothing.
func send(t *testing.T, s *coordinator.Session, victim, peer int, bytes int64) *hostproto.Stats {
	t.Helper()
	ctx := t.Context()
	if err := s.Post(ctx, coordinator.Transfer{Src: victim, Dst: peer, Bytes: bytes}); err != nil {
		t.Fatal(err)
	}
	if err := s.RunUntil(ctx, time.Minute, "the message has arrived", func() bool { return s.OpenMessages() == 0 }); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	stats, err := s.Stats(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return stats[victim]
}

// forger makes quenches.
type forger struct {
	at           fabric.NodeID // where it sits
	port         string        // its interface there
	rate         float64       // quenches a second
	own          bool          // it gives its own address as source
	began        chan struct{} // closed when some are on their way
	f            *fabric.Fabric
	rng          *rand.Rand
	victim, peer fabric.NodeID
	links        []fabric.Hop // of all paths from the victim to its peer
	n            int          // of the present kind of quench
	sent         int          // quenches
	taken        uint64       // of these by its link, when it has ended
}

func newForger(f *fabric.Fabric, victim, peer fabric.NodeID) *forger {
	g := &forger{
		at: fabric.NodeID(f.Hosts() - 1), port: live.HostInterface, rate: 2000,
		began: make(chan struct{}), f: f, rng: rand.New(rand.NewPCG(1, 3)), victim: victim, peer: peer,
	}
	src, dst := f.ToROf(victim), f.ToROf(peer)
	for _, l := range f.PathLabels(src, dst) {
		g.links, _ = f.Path(g.links, src, dst, l)
	}
	return g
}

// targeted names every link of every path that the victim uses, one epoch after the other.
func (g *forger) targeted() (frame.Quench, fabric.NodeID, []byte) {
	g.n++
	hop := g.links[g.n%len(g.links)]
	return frame.Quench{Switch: hop.From, Port: hop.Port, Epoch: uint32(g.n/len(g.links) + 1)}, g.peer, nil
}

// steer names the first uplink of the victim's ToR, by ever newer epochs.
func (g *forger) steer() (frame.Quench, fabric.NodeID, []byte) {
	g.n++
	tor := g.f.ToROf(g.victim)
	return frame.Quench{Switch: tor, Port: g.f.Node(tor).FirstUplink(), Epoch: uint32(g.n)}, g.peer, nil
}

// replay sends the same believable quenches again and again.
func (g *forger) replay() (frame.Quench, fabric.NodeID, []byte) {
	q, from, _ := g.targeted()
	q.Epoch = 1
	return q, from, nil
}

// random names any switch, port, epoch and destination.
func (g *forger) random() (frame.Quench, fabric.NodeID, []byte) {
	q := frame.Quench{
		Switch: fabric.NodeID(g.f.Hosts() + g.rng.IntN(g.f.Switches())), Port: fabric.PortNo(g.rng.IntN(8)), Epoch: g.rng.Uint32() | 1,
	}
	return q, fabric.NodeID(1 + g.rng.IntN(g.f.Hosts()-1)), nil
}

// malformed has random bytes and lengths.
func (g *forger) malformed() (frame.Quench, fabric.NodeID, []byte) {
	q, from, _ := g.targeted()
	payload := q.Append(nil)
	for i := range payload {
		if g.rng.IntN(3) == 0 {
			payload[i] = byte(g.rng.Uint32())
		}
	}
	payload = payload[:g.rng.IntN(len(payload)+1)]
	for range g.rng.IntN(64) {
		payload = append(payload, byte(g.rng.Uint32()))
	}
	return q, from, payload
}

// run sends quenches until ctx ends.
func (g *forger) run(ctx context.Context, x *live.Fabric, forge func(*forger) (frame.Quench, fabric.NodeID, []byte)) error {
	var p *port.Interface
	err := x.In(g.at, func() (err error) {
		p, err = port.OpenInterface(g.port, port.InterfaceOptions{SendBuffer: 1 << 20})
		return err
	})
	if err != nil {
		return err
	}
	defer func() {
		g.taken = p.Counters().OutPkts
		p.Close() //nolint:errcheck // nothing is left to send
	}()
	for began := time.Now(); ; {
		due := int(g.rate*time.Since(began).Seconds()) + 1 - g.sent
		if due <= 0 {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(max(time.Millisecond, time.Duration(float64(time.Second)/g.rate))):
			}
			continue
		}
		var frames [][]byte
		for range min(due, 256) {
			frame, err := g.frame(forge)
			if err != nil {
				return err
			}
			frames = append(frames, frame)
		}
		p.Send(frames)
		if g.sent == 0 {
			close(g.began)
		}
		g.sent += len(frames)
		if ctx.Err() != nil {
			return nil
		}
	}
}

// frame returns a forged quench.
func (g *forger) frame(forge func(*forger) (frame.Quench, fabric.NodeID, []byte)) ([]byte, error) {
	q, from, payload := forge(g)
	if g.own {
		from = g.at
	}
	if payload == nil {
		payload = q.Append(nil)
	}
	next := g.victim // a spine's neighbour
	if int(g.at) < g.f.Hosts() {
		next = g.at
	}
	mac, tor := g.f.MAC(g.at), g.f.MAC(g.f.ToROf(next))
	ether := &layers.Ethernet{SrcMAC: mac[:], DstMAC: tor[:], EthernetType: layers.EthernetTypeIPv4}
	ip := &layers.IPv4{
		Version: 4, TTL: 64, Protocol: layers.IPProtocolUDP,
		SrcIP: net.IP(g.f.HostAddr4(from).AsSlice()), DstIP: net.IP(g.f.HostAddr4(g.victim).AsSlice()),
	}
	udp := &layers.UDP{SrcPort: 1, DstPort: frame.QuenchPort}
	buf := gopacket.NewSerializeBuffer()
	if err := udp.SetNetworkLayerForChecksum(ip); err != nil {
		return nil, err
	}
	err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, ether, ip, udp, gopacket.Payload(payload))
	if err != nil {
		return nil, fmt.Errorf("%v: %w", q, err)
	}
	return slices.Clone(buf.Bytes()), nil
}
