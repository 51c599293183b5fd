package live

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/testbed/host"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/coordinator"
)

// Bench is a fabric with hosts and a controller, for measurements that no scenario describes.
type Bench struct {
	Fabric  *Fabric
	Session *coordinator.Session
}

// NewBench starts a fabric for measurements. Close ends it.
func NewBench(ctx context.Context, cfg Config, notifiers Notifiers) (*Bench, error) {
	x, err := New(ctx, cfg)
	if err != nil {
		return nil, err
	}
	b := &Bench{Fabric: x}
	if err := x.StartHosts(ctx); err != nil {
		b.Close()
		return nil, err
	}
	if b.Session, err = coordinator.Connect(ctx, x.Sockets()); err != nil {
		b.Close()
		return nil, err
	}
	if err := x.StartController(ctx, notifiers); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// Close takes the bench down.
func (b *Bench) Close() {
	if b.Session != nil {
		b.Session.Close() //nolint:errcheck // the hosts end anyway
	}
	b.Fabric.Close()
}

// Sockets returns the hosts' control sockets, by rank.
func (x *Fabric) Sockets() []string {
	var out []string
	for h := range x.f.Hosts() {
		out = append(out, x.Socket(fabric.NodeID(h)))
	}
	return out
}

// ReactConfig sets up [React].
type ReactConfig struct {
	Fabric   *fabric.Fabric
	Dir      string
	Switches Switches
	Notifier scenario.Notifier
	Methods  []CutMethod // measured one after the other
	Cuts     int
	Payload  int
	RTO      time.Duration
	Seed     uint64
	Log      func(format string, args ...any) // reports progress; nil: not called
}

// Reaction is how hosts reacted to one cut.
type Reaction struct {
	Method CutMethod
	Link   string
	// First is the time from just before the cut to the first data packet that a sender sent on another path; All to
	// the last such packet, over all queue pairs on the cut link.
	First, All time.Duration
	Flips      int
	Lost       int64  // packets lost
	Timeouts   uint64 // retransmission timers that expired
	TailProbes uint64
	// Down is the time from just before the cut until the kernel reported the port of the sender's ToR down. 0: it did
	// not.
	Down time.Duration
	Took time.Duration
}

// React cuts links under traffic, one at a time, and measures how long hosts continue to use them.
//
// One host sends a message to another pod; in a fat-tree it takes all paths. Meanwhile an uplink of the sender's ToR is
// cut, or the aggregation switch behind it killed. When the message has arrived, the link is restored.
func React(ctx context.Context, cfg ReactConfig) ([]Reaction, error) {
	f := cfg.Fabric
	b, err := NewBench(ctx, Config{
		Base: Base{Dir: cfg.Dir, Switches: cfg.Switches}, Fabric: f, Payload: cfg.Payload, QueueDepth: 256,
	}, Notifiers{
		Quench: cfg.Notifier.Quench(), GNMI: cfg.Notifier.GNMI(), HashSeed: uint32(cfg.Seed),
	})
	if err != nil {
		return nil, err
	}
	defer b.Close()
	rate := f.Spec().HostLink.Rate
	set := host.Settings{
		Seed: cfg.Seed, Payload: cfg.Payload, RTO: fabric.Time(cfg.RTO) * fabric.Nanosecond, Rate: rate,
		ResendOnFlip: true, TailProbe: true,
		FailedMemory: 60 * fabric.Second,            // every cut meets a new agent
		Losses:       hostagent.LossTest{Off: true}, // these switches mark nothing
		NoQuench:     !cfg.Notifier.Quench(), NoUpdates: !cfg.Notifier.GNMI(),
	}
	rng := rand.New(rand.NewPCG(cfg.Seed, 0x72656163))
	perPod := f.Hosts() / f.Spec().Pods
	// A message takes some time-outs: a sender that has to wait for its timer is
	// then still in the middle of it.
	bytes := int64(rate/8) * int64(6*cfg.RTO) / int64(time.Second)
	watch, err := watchCarriers()
	if err != nil {
		return nil, err
	}
	defer watch.close()
	var out []Reaction
	var order []int // of links: a controller does not believe one that flaps
	uplinks := f.Node(f.ToRID(0)).Uplinks()
	for i := range cfg.Cuts {
		if len(order) == 0 {
			order = rng.Perm(f.ToRs() * uplinks)
		}
		next := order[0]
		order = order[1:]
		first, n := f.HostsOf(f.ToRID(next / uplinks))
		method := cfg.Methods[i%len(cfg.Methods)]
		src := int(first) + rng.IntN(n)
		r, err := b.react(ctx, set, next%uplinks, coordinator.Transfer{Src: src, Dst: (src + perPod) % f.Hosts(), Bytes: bytes}, method, rng, cfg, watch)
		if lost := b.Fabric.Check(); lost != nil {
			err = lost
		}
		if err != nil {
			return out, fmt.Errorf("cut %d, %s: %w", i+1, method, err)
		}
		out = append(out, r)
		if cfg.Log != nil {
			cfg.Log("cut %d of %d: %s %s: first packet on a new path after %v, last after %v; %d flips, %d packets lost",
				i+1, cfg.Cuts, r.Method, r.Link, r.First, r.All, r.Flips, r.Lost)
		}
	}
	return out, nil
}

func (b *Bench) react(ctx context.Context, set host.Settings, uplink int, t coordinator.Transfer, method CutMethod, rng *rand.Rand, cfg ReactConfig, watch *carrierWatch) (Reaction, error) {
	f, s := cfg.Fabric, b.Session
	if err := s.Configure(ctx, set); err != nil {
		return Reaction{}, err
	}
	tor := f.ToROf(fabric.NodeID(t.Src))
	port := f.Node(tor).FirstUplink() + fabric.PortNo(uplink)
	link := f.Node(tor).Link(port)
	began := time.Now()
	if err := s.Post(ctx, t); err != nil {
		return Reaction{}, err
	}
	// In the first quarter of the message, at any point of a pacing period.
	if err := s.RunFor(ctx, cfg.RTO/2+time.Duration(rng.Int64N(int64(cfg.RTO)))); err != nil {
		return Reaction{}, err
	}
	s.TakeFlips()
	at, err := b.Fabric.Cut(ctx, link, method)
	if err != nil {
		return Reaction{}, err
	}
	if err := s.RunUntil(ctx, 60*time.Second, "the message has arrived", func() bool { return s.OpenMessages() == 0 }); err != nil {
		return Reaction{}, err
	}
	r := Reaction{Method: method, Link: f.LinkName(link), Took: time.Since(began)}
	if down := watch.wentDown(b.Fabric.end(link, tor).index); down != 0 {
		r.Down = time.Duration(down - at)
	}
	if err := s.RunFor(ctx, 20*time.Millisecond); err != nil {
		return Reaction{}, err
	}
	for _, x := range s.TakeFlips() {
		if x.Reason == "return" || x.First < at {
			continue
		}
		r.Flips++
		d := time.Duration(x.First - at)
		if r.First == 0 || d < r.First {
			r.First = d
		}
		r.All = max(r.All, d)
	}
	stats, err := s.Stats(ctx)
	if err != nil {
		return Reaction{}, err
	}
	for _, h := range stats {
		r.Lost += int64(h.FramesOut) - int64(h.FramesIn)
		r.Timeouts += h.Timeouts
		r.TailProbes += h.TailProbes
	}
	if _, err := b.Fabric.Restore(ctx, link, method); err != nil {
		return Reaction{}, err
	}
	if err := b.Fabric.Converged(ctx); err != nil {
		return Reaction{}, err
	}
	return r, s.RunFor(ctx, 50*time.Millisecond)
}

// Percentile returns the p-th percentile (0 to 100) of durations, by nearest rank; 0 if there are none.
func Percentile(ds []time.Duration, p float64) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(ds))
	i := int(p/100*float64(len(sorted))+0.999999) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}

// Reactions writes a table of reactions, one row per way of cutting a link.
func Reactions(w io.Writer, notifier scenario.Notifier, rs []Reaction) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "notifier\tway\tcuts\tno flip\tfrom cut: first p50\tp99\tall p50\tp99\tfrom port down: first p50\tp99\tall p50\tp99\tlost p50\tmax\ttime-outs\t")
	var methods []CutMethod
	for _, r := range rs {
		if !slices.Contains(methods, r.Method) {
			methods = append(methods, r.Method)
		}
	}
	row := func(name string, of func(Reaction) bool) {
		var first, all, firstDown, allDown []time.Duration
		var lost []int64
		cuts, none, timeouts := 0, 0, uint64(0)
		for _, r := range rs {
			if !of(r) {
				continue
			}
			cuts++
			lost = append(lost, r.Lost)
			timeouts += r.Timeouts
			if r.Flips == 0 {
				none++
				continue
			}
			first, all = append(first, r.First), append(all, r.All)
			if r.Down > 0 {
				firstDown, allDown = append(firstDown, r.First-r.Down), append(allDown, r.All-r.Down)
			}
		}
		slices.Sort(lost)
		us := func(d time.Duration) string { return fmt.Sprintf("%dus", d.Microseconds()) }
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t\n", notifier, name, cuts, none, us(Percentile(first, 50)), us(Percentile(first, 99)),
			us(Percentile(all, 50)), us(Percentile(all, 99)), us(Percentile(firstDown, 50)), us(Percentile(firstDown, 99)),
			us(Percentile(allDown, 50)), us(Percentile(allDown, 99)), lost[(len(lost)-1)/2], lost[len(lost)-1], timeouts)
	}
	for _, method := range methods {
		row(string(method), func(r Reaction) bool { return r.Method == method })
	}
	if len(methods) > 1 {
		row("all", func(Reaction) bool { return true })
	}
	return t.Flush()
}
