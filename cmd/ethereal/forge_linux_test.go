package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/vishvananda/netlink"
	"golang.org/x/sync/errgroup"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint/host"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint/hostproto"
	"github.com/ethereal-fabric/ethereal/testbed/port"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/coordinator"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/live"
)

// TestForgedQuenches: a host that gets forged quenches about the links it uses still gets its message through, on a path
// that is whole. The victim is the first host. The forger has taken over the first spine, since switches drop what hosts
// forge; a quench is one datagram, 2,000 a second.
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
			if v := transfer(t, s, victim, peer); v.Quenches+v.BadQuench+v.BadFrame == 0 {
				t.Fatal("no quench has reached the victim")
			} else {
				attack.check(t, v)
			}
		})
	}
}

var forgeAll = flag.Bool("forge.all", false, "TestQuenchesOfHosts: all rates, from one host and from eight")

// TestQuenchesOfHosts: hosts cannot steer another host's traffic by quenches. While they forge, at several rates, from their
// own addresses and others', the victim takes none, and the uplinks of its ToR carry the same within 5 %.
func TestQuenchesOfHosts(t *testing.T) {
	spec := fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 2, HostsPerToR: 5}
	f, b, _ := newBench(t, spec, 20e6, 4096, live.Notifiers{Quench: true, GNMI: true})
	if b == nil {
		return
	}
	const victim, peer = 0, 5
	type attack struct{ rate, hosts int }
	attacks := []attack{{20, 1}, {1000, 1}}
	if *forgeAll {
		attacks = []attack{{20, 1}, {20, 8}, {1000, 1}, {1000, 8}, {100_000, 1}, {100_000, 8}}
	}
	for _, a := range attacks {
		for _, own := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d a second from %d hosts, own address %v", a.rate, a.hosts, own), func(t *testing.T) {
				set := hostproto.Settings{Settings: host.Settings{
					Seed: 1, Payload: 4096, RTO: 500 * fabric.Millisecond, FailedMemory: 100 * fabric.Millisecond, Rate: 20e6,
					Losses: hostagent.LossTest{Off: true},
				}}
				if err := b.Session.Configure(t.Context(), set); err != nil {
					t.Fatal(err)
				}
				forging, stop := context.WithCancel(t.Context())
				var forgers errgroup.Group
				for h := range a.hosts {
					g := newForger(f, victim, peer)
					g.at, g.own = fabric.NodeID([]int{9, 1, 2, 3, 4, 6, 7, 8}[h]), own
					each := a.rate / a.hosts // in batches of up to 1,000 batches a second
					g.batch = max(1, each/1000)
					g.every = time.Second * time.Duration(g.batch) / time.Duration(max(1, each))
					forgers.Go(func() error { return g.run(forging, b.Fabric, (*forger).steer) })
					select {
					case <-g.began:
					case <-time.After(time.Minute):
						t.Fatal("the forger has not begun")
					}
				}
				before := uplinkBytes(t, f, b.Fabric, victim)
				v := transfer(t, b.Session, victim, peer)
				carried := uplinkBytes(t, f, b.Fabric, victim)
				stop()
				if err := forgers.Wait(); err != nil {
					t.Error(err)
				}
				for i := range carried {
					carried[i] -= before[i]
				}
				t.Logf("uplinks carried %v bytes", carried)
				if v.Quenches != 0 || v.Flips != 0 {
					t.Errorf("%d quenches reached the victim, %d flips", v.Quenches, v.Flips)
				}
				if least, most := slices.Min(carried), slices.Max(carried); float64(least) < 0.95*float64(most) {
					t.Errorf("uplinks carried %d to %d bytes, want the same within 5 %%", least, most)
				}
			})
		}
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
	at           fabric.NodeID // where it sits
	port         string        // its interface there
	every        time.Duration // between two batches
	batch        int
	own          bool          // it gives its own address as source
	began        chan struct{} // closed when some are on their way
	f            *fabric.Fabric
	rng          *rand.Rand
	victim, peer fabric.NodeID
	links        []fabric.Hop // of all paths from the victim to its peer
	n            int
}

func newForger(f *fabric.Fabric, victim, peer fabric.NodeID) *forger {
	g := &forger{
		at: fabric.NodeID(f.Hosts() - 1), port: live.HostInterface, every: 500 * time.Microsecond, batch: 1,
		began: make(chan struct{}), f: f, rng: rand.New(rand.NewPCG(1, 3)), victim: victim, peer: peer,
	}
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

// steer names the first uplink of the victim's ToR, by ever newer epochs.
func (g *forger) steer() (hostagent.Quench, fabric.NodeID, []byte) {
	g.n++
	tor := g.f.ToROf(g.victim)
	return hostagent.Quench{Switch: tor, Port: g.f.Node(tor).FirstUplink(), Epoch: uint32(g.n)}, g.peer, nil
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

// run sends quenches until ctx ends.
func (g *forger) run(ctx context.Context, x *live.Fabric, forge func(*forger) (hostagent.Quench, fabric.NodeID, []byte)) error {
	var p *port.Interface
	err := x.In(g.at, func() (err error) {
		p, err = port.OpenInterface(g.port, port.InterfaceOptions{SendBuffer: 1 << 20})
		return err
	})
	if err != nil {
		return err
	}
	defer p.Close()
	tick := time.NewTicker(g.every)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if n == 2 {
			close(g.began)
		}
		var frames [][]byte
		for range g.batch {
			frame, err := g.frame(forge)
			if err != nil {
				return err
			}
			frames = append(frames, frame)
		}
		p.Send(frames)
	}
}

// frame returns a forged quench.
func (g *forger) frame(forge func(*forger) (hostagent.Quench, fabric.NodeID, []byte)) ([]byte, error) {
	q, from, payload := forge(g)
	if g.own {
		from = g.at
	}
	if payload == nil {
		payload = q.Append(nil)
	}
	mac, tor := g.f.MAC(g.at), g.f.MAC(g.f.ToROf(g.victim))
	ip := &layers.IPv4{
		Version: 4, TTL: 64, Protocol: layers.IPProtocolUDP,
		SrcIP: net.IP(g.f.HostAddr4(from).AsSlice()), DstIP: net.IP(g.f.HostAddr4(g.victim).AsSlice()),
	}
	udp := &layers.UDP{SrcPort: 1, DstPort: hostagent.QuenchPort}
	buf := gopacket.NewSerializeBuffer()
	if err := udp.SetNetworkLayerForChecksum(ip); err != nil {
		return nil, err
	}
	err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true},
		&layers.Ethernet{SrcMAC: mac[:], DstMAC: tor[:], EthernetType: layers.EthernetTypeIPv4}, ip, udp, gopacket.Payload(payload))
	if err != nil {
		return nil, fmt.Errorf("%v: %w", q, err)
	}
	return slices.Clone(buf.Bytes()), nil
}
