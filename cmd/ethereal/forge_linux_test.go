package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint/host"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint/hostproto"
	"github.com/ethereal-fabric/ethereal/testbed/port"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/coordinator"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/live"
)

// TestForgedQuenches: a host that is told lies about the links it uses still gets its message through, on a path that is
// whole. The victim is the first host, the forger sits on the last one, of another ToR; a quench is one datagram, 2,000 a
// second.
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
		forge func(*forger) (q hostagent.Quench, from fabric.NodeID, payload []byte)
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
			set := hostproto.Settings{Settings: host.Settings{
				Seed: 1, Payload: 4096, RTO: 100 * fabric.Millisecond, FailedMemory: 100 * fabric.Millisecond, Rate: 20e6,
				Losses: hostagent.LossTest{Off: true}, // these switches mark nothing
			}}
			if err := s.Configure(ctx, set); err != nil {
				t.Fatal(err)
			}
			forging, stop := context.WithCancel(ctx)
			sent, g := make(chan error, 1), newForger(f, victim, peer)
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
			if v := transfer(t, s, victim, peer); v.Quenches+v.BadQuench+v.BadFrame == 0 {
				t.Fatal("no quench has reached the victim")
			} else {
				attack.check(t, v)
			}
		})
	}
}

// transfer sends a message from the victim to its peer, and returns what the victim counted meanwhile.
func transfer(t *testing.T, s *coordinator.Session, victim, peer int) *hostproto.Stats {
	t.Helper()
	ctx := t.Context()
	if err := s.Post(ctx, coordinator.Transfer{Src: victim, Dst: peer, Bytes: 1e6}); err != nil {
		t.Fatal(err)
	}
	if err := s.Until(ctx, time.Minute, "the message has arrived", func() bool { return s.Open() == 0 }); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	stats, err := s.Stats(ctx)
	if err != nil {
		t.Fatal(err)
	}
	v := stats[victim]
	t.Logf("%d quenches, %d malformed, verdicts %v, %d flips, %d time-outs", v.Quenches, v.BadQuench+v.BadFrame, v.Verdicts,
		v.Flips, v.Timeouts)
	return v
}

// forger makes quenches.
type forger struct {
	began        chan struct{} // closed when some are on their way
	f            *fabric.Fabric
	rng          *rand.Rand
	victim, peer fabric.NodeID
	links        []fabric.Hop // of all paths from the victim to its peer
	n            int
}

func newForger(f *fabric.Fabric, victim, peer fabric.NodeID) *forger {
	g := &forger{began: make(chan struct{}), f: f, rng: rand.New(rand.NewPCG(1, 3)), victim: victim, peer: peer}
	src, dst := f.ToROf(victim), f.ToROf(peer)
	for _, l := range f.PathLabels(src, dst) {
		g.links, _ = f.Path(g.links, src, dst, l)
	}
	return g
}

// targeted names every link of every path that the victim uses, one epoch after the other.
func (g *forger) targeted() (hostagent.Quench, fabric.NodeID, []byte) {
	g.n++
	hop := g.links[g.n%len(g.links)]
	return hostagent.Quench{Switch: hop.From, Port: hop.Port, Epoch: uint32(g.n/len(g.links) + 1)}, g.peer, nil
}

// replay sends the same believable quenches again and again.
func (g *forger) replay() (hostagent.Quench, fabric.NodeID, []byte) {
	q, from, _ := g.targeted()
	q.Epoch = 1
	return q, from, nil
}

// random names any switch, port, epoch and destination.
func (g *forger) random() (hostagent.Quench, fabric.NodeID, []byte) {
	q := hostagent.Quench{
		Switch: fabric.NodeID(g.f.Hosts() + g.rng.IntN(g.f.Switches())), Port: fabric.PortNo(g.rng.IntN(8)), Epoch: g.rng.Uint32() | 1,
	}
	return q, fabric.NodeID(1 + g.rng.IntN(g.f.Hosts()-1)), nil
}

// malformed has random bytes and lengths.
func (g *forger) malformed() (hostagent.Quench, fabric.NodeID, []byte) {
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

// run sends quenches from the last host until ctx ends.
func (g *forger) run(ctx context.Context, x *live.Fabric, forge func(*forger) (hostagent.Quench, fabric.NodeID, []byte)) error {
	last := fabric.NodeID(g.f.Hosts() - 1)
	var p *port.Interface
	err := x.In(last, func() (err error) {
		p, err = port.OpenInterface(live.HostInterface, port.InterfaceOptions{SendBuffer: 1 << 20})
		return err
	})
	if err != nil {
		return err
	}
	defer p.Close()
	tick := time.NewTicker(500 * time.Microsecond)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if n == 20 {
			close(g.began)
		}
		q, from, payload := forge(g)
		if payload == nil {
			payload = q.Append(nil)
		}
		mac, tor := g.f.MAC(last), g.f.MAC(g.f.ToROf(last))
		ip := &layers.IPv4{
			Version: 4, TTL: 64, Protocol: layers.IPProtocolUDP,
			SrcIP: net.IP(g.f.HostAddr4(from).AsSlice()), DstIP: net.IP(g.f.HostAddr4(g.victim).AsSlice()),
		}
		udp := &layers.UDP{SrcPort: 1, DstPort: hostagent.QuenchPort}
		buf := gopacket.NewSerializeBuffer()
		if err := udp.SetNetworkLayerForChecksum(ip); err != nil {
			return err
		}
		err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true},
			&layers.Ethernet{SrcMAC: mac[:], DstMAC: tor[:], EthernetType: layers.EthernetTypeIPv4}, ip, udp, gopacket.Payload(payload))
		if err != nil {
			return fmt.Errorf("%v: %w", q, err)
		}
		p.Send([][]byte{buf.Bytes()})
	}
}
