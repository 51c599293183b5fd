package live

import (
	"context"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint/hostproto"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/coordinator"
)

// soakMark is from how many packets in a queue on a switch marks them.
const soakMark = 8

// SoakConfig sets up [Soak].
type SoakConfig struct {
	Fabric   *fabric.Fabric
	Dir      string
	Bytes    int64 // to be moved
	Failures int   // to be made meanwhile, spread over the bytes
	Payload  int
	Message  int64 // bytes of a message
	RTO      time.Duration
	Send     bool // by SEND instead of by RDMA WRITE
	AckEvery int
	Seed     uint64
	Limit    time.Duration                    // nothing new is begun after that long; 0: no limit
	Log      func(format string, args ...any) // progress; nil: none
}

// Soaked is what a soak has done.
type Soaked struct {
	Messages        int
	Bytes           int64
	Failures        map[How]int
	Flips           int
	Took            time.Duration
	Retransmissions uint64
	Timeouts        uint64
	Quenches        uint64
	Duplicates      uint64 // data packets that arrived again and were not taken
	BadICRC         uint64
	Lost            int64 // packets
}

// Soak moves messages between random hosts while links and switches fail in all
// ways, and compares every message's checksum with that of what arrived. Its error
// says which message was lost, came twice, or came with other bytes.
//
// Up to two links are cut at once, never both uplinks of a switch on purpose: what
// is cut off altogether has to wait, which proves nothing.
func Soak(ctx context.Context, cfg SoakConfig) (*Soaked, error) {
	f := cfg.Fabric
	// Hosts choose their peers at random, so that several send to one: without marks
	// queues would grow until packets take longer than the retransmission timer, and
	// senders that go back repeat what is on its way.
	mark := soakMark * fabric.Bytes(cfg.Payload+headroom)
	b, err := NewBench(ctx, Config{Fabric: f, Dir: cfg.Dir, Payload: cfg.Payload, QueueDepth: 256}, Notifiers{
		Quench: true, GNMI: true, HashSeed: uint32(cfg.Seed), KMin: mark, KMax: mark, PMax: 1,
	})
	if err != nil {
		return nil, err
	}
	defer b.Close()
	set := hostproto.Settings{
		Seed: cfg.Seed, Payload: cfg.Payload, RTO: int64(cfg.RTO), FailedMemory: int64(4 * cfg.RTO), Send: cfg.Send,
		AckEvery: cfg.AckEvery, RateBits: int64(f.Spec().HostLink.Rate), Control: "dctcp",
	}
	s := b.Session
	if err := s.Configure(ctx, set); err != nil {
		return nil, err
	}
	out := &Soaked{Failures: map[How]int{}}
	breaker := &breaker{b: b, cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 1)), made: map[How]int{}}
	breaking, stop := context.WithCancel(ctx)
	broke := make(chan error, 1)
	go func() { broke <- breaker.run(breaking) }()
	defer stop()

	rng := rand.New(rand.NewPCG(cfg.Seed, 2))
	began, told := time.Now(), time.Now()
	posted := int64(0)
	failing := true
	over := func() bool { return cfg.Limit > 0 && time.Since(began) > cfg.Limit }
	for {
		if over() {
			stop()
		}
		for s.Open() < 2*f.Hosts() && (posted < cfg.Bytes || failing) && !over() {
			src := rng.IntN(f.Hosts())
			dst := (src + 1 + rng.IntN(f.Hosts()-1)) % f.Hosts()
			n := cfg.Message/2 + rng.Int64N(cfg.Message)
			if err := s.Post(ctx, coordinator.Transfer{Src: src, Dst: dst, Bytes: n}); err != nil {
				return out, err
			}
			posted += n
		}
		open := s.Open()
		err := s.Until(ctx, 2*time.Minute, "a message has arrived", func() bool { return s.Open() < open || open == 0 })
		if err != nil {
			b.keep(context.WithoutCancel(ctx))
			return out, err
		}
		out.Messages, out.Bytes = s.Moved()
		breaker.moved.Store(out.Bytes)
		out.Flips += len(s.TakeFlips())
		s.Words()
		select {
		case err := <-broke:
			if err != nil && !over() {
				return out, err
			}
			failing = false
			if err := b.Fabric.Heal(ctx); err != nil {
				return out, err
			}
		default:
		}
		if cfg.Log != nil && time.Since(told) > 10*time.Second {
			told = time.Now()
			took := time.Since(began)
			cfg.Log("%d messages, %v, %d failures after %v: %.1f MB/s", out.Messages, fabric.Bytes(out.Bytes), breaker.count(),
				took.Round(time.Second), float64(out.Bytes)/1e6/took.Seconds())
		}
		if s.Open() == 0 && !failing && (posted >= cfg.Bytes || over()) {
			break
		}
	}
	out.Took = time.Since(began)
	if err := s.Idle(ctx, 200*time.Millisecond); err != nil { // what comes twice comes now
		return out, err
	}
	maps.Copy(out.Failures, breaker.made)
	stats, err := s.Stats(ctx)
	if err != nil {
		return out, err
	}
	for _, h := range stats {
		out.Retransmissions += h.Retransmissions
		out.Timeouts += h.Timeouts
		out.Quenches += h.Quenches
		out.Duplicates += h.Duplicates
		out.BadICRC += h.BadICRC
		out.Lost += int64(h.FramesOut) - int64(h.FramesIn)
	}
	return out, s.Check()
}

// keep writes the hosts' counts and the controller's status beside the logs, for
// whoever looks into a failure. What cannot be had is left out.
func (b *Bench) keep(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	stats, err := b.Session.Stats(ctx)
	if err == nil {
		if text, err := json.MarshalIndent(stats, "", " "); err == nil {
			os.WriteFile(b.Fabric.path("stats.json"), text, 0o600) //nolint:errcheck // see above
		}
	}
	if text, err := b.Fabric.status(ctx); err == nil {
		os.WriteFile(b.Fabric.path("controller-status.json"), text, 0o600) //nolint:errcheck // see above
	}
}

// breaker cuts links and restores them.
type breaker struct {
	b     *Bench
	cfg   SoakConfig
	rng   *rand.Rand
	moved atomic.Int64 // bytes that have arrived
	mu    sync.Mutex
	made  map[How]int
	all   int
}

func (k *breaker) count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.all
}

// due returns when so many bytes have moved that the next failure's turn has come:
// the failures meet all of the bytes, however fast this machine moves them.
func (k *breaker) due(ctx context.Context) error {
	share := float64(k.count()) / float64(k.cfg.Failures) * float64(k.cfg.Bytes)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for float64(k.moved.Load()) < share {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// run makes the failures asked for.
func (k *breaker) run(ctx context.Context) error {
	f := k.b.Fabric.f
	type cut struct {
		link fabric.LinkID
		how  How
	}
	var cuts []cut
	restore := func() error {
		c := cuts[0]
		cuts = cuts[1:]
		if _, err := k.b.Fabric.Restore(ctx, c.link, c.how); err != nil {
			return err
		}
		return nil
	}
	pause := func(most time.Duration) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(k.rng.Int64N(int64(most)))):
			return nil
		}
	}
	for k.count() < k.cfg.Failures {
		if err := k.due(ctx); err != nil {
			return err
		}
		// Host links have no alternative: what they lose is lost until they return.
		link := fabric.LinkID(f.Hosts() + k.rng.IntN(f.Links()-f.Hosts()))
		how := [...]How{Silently, Silently, LinkDown, LinkDown, LinkDown, GNMI, GNMI, GNMI, GNMI, Kill}[k.rng.IntN(10)]
		if len(cuts) > 0 && (how == Kill || cuts[0].how == Kill || cuts[0].link == link) {
			if err := restore(); err != nil {
				return err
			}
		}
		if _, err := k.b.Fabric.Cut(ctx, link, how); err != nil {
			return err
		}
		cuts = append(cuts, cut{link, how})
		k.mu.Lock()
		k.made[how]++
		k.all++
		k.mu.Unlock()
		if err := pause(400 * time.Millisecond); err != nil {
			return err
		}
		if len(cuts) > 1 || k.rng.IntN(2) == 0 {
			if err := restore(); err != nil {
				return err
			}
		}
	}
	for len(cuts) > 0 {
		if err := restore(); err != nil {
			return err
		}
	}
	return nil
}
