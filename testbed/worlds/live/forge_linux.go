package live

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint/hostproto"
	"github.com/ethereal-fabric/ethereal/testbed/port"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/coordinator"
)

// Attack says what quenches a forger sends.
type Attack string

// Attacks. The victim is the first host, which sends to another pod all the
// while; the forger sits on the last host.
const (
	NoAttack  Attack = "none"
	Random    Attack = "random"    // any switch, port, epoch, destination
	Targeted  Attack = "targeted"  // every link of every path that the victim uses, one epoch after the other
	Replay    Attack = "replay"    // the same believable quenches again and again
	Malformed Attack = "malformed" // random lengths, versions, bytes
)

// Attacks returns all attacks.
func Attacks() []Attack { return []Attack{NoAttack, Random, Targeted, Replay, Malformed} }

// ForgeConfig sets up [Forge].
type ForgeConfig struct {
	Fabric  *fabric.Fabric
	Dir     string
	Payload int
	RTO     time.Duration
	Attack  Attack
	Rate    int // quenches a second
	Bytes   int64
	Seed    uint64
}

// Forged is what an attack did.
type Forged struct {
	Attack   Attack
	Sent     int           // quenches
	Arrived  uint64        // quenches that the victim took for such
	Bad      uint64        // those that were malformed
	Verdicts []uint64      // by hostagent.Verdict
	Flips    int           // of the victim
	Took     time.Duration // to move the bytes
	CPU      time.Duration // the victim used
	RSS      int64         // bytes the victim has afterwards
	Paths    int           // on which the victim sent
}

// Forge has a forger send source quenches to a host that is sending, and sees
// whether the host still gets its messages through, and what that costs. Its error
// says if it does not.
func Forge(ctx context.Context, cfg ForgeConfig) (*Forged, error) {
	f := cfg.Fabric
	b, err := NewBench(ctx, Config{Fabric: f, Dir: cfg.Dir, Payload: cfg.Payload, QueueDepth: 256}, Notifiers{
		Quench: true, GNMI: true, HashSeed: uint32(cfg.Seed),
	})
	if err != nil {
		return nil, err
	}
	defer b.Close()
	s := b.Session
	set := hostproto.Settings{
		Seed: cfg.Seed, Payload: cfg.Payload, RTO: int64(cfg.RTO), FailedMemory: int64(100 * time.Millisecond),
		RateBits: int64(f.Spec().HostLink.Rate),
	}
	if err := s.Configure(ctx, set); err != nil {
		return nil, err
	}
	victim, peer := 0, f.Hosts()/2
	before, err := s.Stats(ctx)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := s.Post(ctx, coordinator.Transfer{Src: victim, Dst: peer, Bytes: cfg.Bytes}); err != nil {
		return nil, err
	}
	forging, stop := context.WithCancel(ctx)
	defer stop()
	type sent struct {
		n   int
		err error
	}
	forged := make(chan sent, 1)
	go func() {
		n, err := b.forge(forging, cfg, fabric.NodeID(victim), fabric.NodeID(peer))
		forged <- sent{n, err}
	}()
	out := &Forged{Attack: cfg.Attack}
	err = s.Until(ctx, 2*time.Minute, "the message has arrived", func() bool { return s.Open() == 0 })
	out.Took = time.Since(began)
	stop()
	end := <-forged
	out.Sent = end.n
	if err != nil || end.err != nil {
		return out, fmt.Errorf("%s: %w", cfg.Attack, firstError(err, end.err))
	}
	if err := s.Idle(ctx, 50*time.Millisecond); err != nil {
		return out, err
	}
	after, err := s.Stats(ctx)
	if err != nil {
		return out, err
	}
	v := after[victim]
	out.Arrived, out.Bad, out.Verdicts, out.Flips = v.Quenches, v.BadQuench+v.BadFrame, v.Verdicts, int(v.Flips)
	out.CPU, out.RSS = time.Duration(v.CPU-before[victim].CPU), v.RSS
	for _, n := range v.LabelBytes {
		if n > 0 {
			out.Paths++
		}
	}
	return out, s.Check()
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// forge sends quenches from the last host until ctx ends.
func (b *Bench) forge(ctx context.Context, cfg ForgeConfig, victim, peer fabric.NodeID) (int, error) {
	if cfg.Attack == NoAttack {
		<-ctx.Done()
		return 0, nil
	}
	forger := b.Fabric.hosts[len(b.Fabric.hosts)-1]
	var p *port.Interface
	err := b.Fabric.thread.in(forger.ns, func() (err error) {
		p, err = port.OpenInterface(HostInterface, port.InterfaceOptions{SendBuffer: 1 << 20})
		return err
	})
	if err != nil {
		return 0, err
	}
	defer p.Close() //nolint:errcheck // nothing of worth is in it
	g := newForger(cfg, victim, peer)
	const period = 5 * time.Millisecond
	tick := time.NewTicker(period)
	defer tick.Stop()
	sent := 0
	began := time.Now()
	for {
		select {
		case <-ctx.Done():
			return sent, nil
		case <-tick.C:
		}
		due := int(time.Since(began).Seconds() * float64(cfg.Rate))
		var frames [][]byte
		for len(frames) < min(due-sent, cfg.Rate/20+1) {
			frames = append(frames, g.next())
		}
		sent += p.Send(frames)
	}
}

// forger makes quenches.
type forger struct {
	cfg          ForgeConfig
	rng          *rand.Rand
	victim, peer fabric.NodeID
	links        []fabric.Hop // of all paths from the victim to its peer
	n            int
}

func newForger(cfg ForgeConfig, victim, peer fabric.NodeID) *forger {
	f := cfg.Fabric
	g := &forger{cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 3)), victim: victim, peer: peer}
	src, dst := f.ToROf(victim), f.ToROf(peer)
	for _, l := range f.PathLabels(src, dst) {
		g.links, _ = f.Path(g.links, src, dst, l)
	}
	return g
}

func (g *forger) next() []byte {
	f := g.cfg.Fabric
	g.n++
	from := f.HostAddr4(g.peer)
	hop := g.links[g.n%len(g.links)]
	q := hostagent.Quench{Switch: hop.From, Port: hop.Port, Epoch: uint32(g.n/len(g.links) + 1)}
	switch g.cfg.Attack {
	case Random:
		q.Switch = fabric.NodeID(f.Hosts() + g.rng.IntN(f.Switches()))
		q.Port, q.Epoch = fabric.PortNo(g.rng.IntN(8)), g.rng.Uint32()|1
		from = f.HostAddr4(fabric.NodeID(1 + g.rng.IntN(f.Hosts()-1)))
	case Replay:
		q.Epoch = 1
	}
	payload := q.Append(nil)
	if g.cfg.Attack == Malformed {
		for i := range payload {
			if g.rng.IntN(3) == 0 {
				payload[i] = byte(g.rng.Uint32())
			}
		}
		payload = payload[:g.rng.IntN(len(payload)+1)]
		for range g.rng.IntN(64) {
			payload = append(payload, byte(g.rng.Uint32()))
		}
	}
	last := fabric.NodeID(f.Hosts() - 1)
	return udpFrame(f.MAC(f.ToROf(last)), f.MAC(last), from, f.HostAddr4(g.victim), hostagent.QuenchPort, payload)
}

// udpFrame makes a UDP datagram over IPv4 without a UDP checksum.
func udpFrame(dstMAC, srcMAC [6]byte, src, dst netip.Addr, udpPort uint16, payload []byte) []byte {
	b := make([]byte, 14+20+8, 14+20+8+len(payload))
	copy(b, dstMAC[:])
	copy(b[6:], srcMAC[:])
	binary.BigEndian.PutUint16(b[12:], 0x0800)
	ip, u := b[14:34], b[34:]
	ip[0], ip[8], ip[9] = 0x45, 64, 17
	binary.BigEndian.PutUint16(ip[2:], uint16(28+len(payload)))
	s, d := src.As4(), dst.As4()
	copy(ip[12:], s[:])
	copy(ip[16:], d[:])
	sum := uint32(0)
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum))
	binary.BigEndian.PutUint16(u, udpPort)
	binary.BigEndian.PutUint16(u[2:], udpPort)
	binary.BigEndian.PutUint16(u[4:], uint16(8+len(payload)))
	return append(b, payload...)
}
