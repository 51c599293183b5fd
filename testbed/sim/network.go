package sim

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sync/atomic"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Network is a simulated network of hosts, links and switches in virtual time. See the package comment.
type Network struct {
	cfg Config
	fab *fabric.Fabric

	dirs      []direction
	arrivals  []arrival // by direction
	ports     []host    // of all hosts, those into a plane together
	hosts     []host    // of them, those into the first
	switches  []switchNode
	flow      *flowControl // nil: no PFC
	admission admission
	logs      []eventLog // per node; the last is the control functions'

	// regions are simulated side by side if there are several. world has the
	// control functions that belong to no node; it is the region if there is one.
	regions    []*region
	world      *region
	allRegions []*region   // regions, and world if it is none of them
	owner      []uint8     // region by node
	cores      int         // that simulate regions
	pool       *packetPool // of all regions; nil: each has its own
	lookahead  fabric.Time
	sequence   uint32 // of the next control function

	// Of several regions:
	now        fabric.Time // while they are at rest
	by         fabric.Time // end of the last window
	parity     int         // where they put what crosses
	settling   bool        // in a function of Serially after a window
	shares     RegionShares
	concurrent int64 // events in windows

	stop     atomic.Bool
	progress struct{ now, events, hops atomic.Int64 }

	peaks []int64 // by direction, see QueuePeak; nil: nobody asked
}

// New builds the network of c.Fabric. Its switches and hosts must be set before
// it runs.
func New(c Config) (*Network, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	f := c.Fabric
	n := &Network{
		cfg:      c,
		fab:      f,
		dirs:     make([]direction, 2*f.Links()),
		arrivals: make([]arrival, 2*f.Links()),
		ports:    make([]host, f.HostLinks()),
		switches: make([]switchNode, f.Switches()),
		logs:     newEventLogs(f.Nodes() + 1),
	}
	n.hosts = n.ports[:f.Hosts()]
	thresholds := thresholdsOf(&c)
	n.admission = &thresholds
	if n.flow = newFlowControl(c); n.flow != nil {
		n.admission = n.flow
	}
	if c.Trim > 0 {
		n.admission = &trimming{maxBytes: int32(c.Trim), others: n.admission}
	}
	regions := c.Regions
	if c.Tracer != nil {
		regions = 1 // it sees events as they happen
	}
	var count int
	if n.owner, count = assignRegions(f, regions); lookahead(f, n.owner) < 1 {
		n.owner, count = assignRegions(f, 1)
	}
	n.lookahead = lookahead(f, n.owner)
	if n.cores = min(max(1, c.Cores), count); n.cores == 1 {
		n.pool = new(packetPool)
	}
	for i := range count {
		n.regions = append(n.regions, n.newRegion(i, count))
	}
	if n.world = n.regions[0]; count > 1 {
		n.world = n.newRegion(count, 0)
	}
	if n.allRegions = slices.Clone(n.regions); count > 1 {
		n.allRegions = append(n.allRegions, n.world)
	}
	for i := range f.Links() {
		l := f.Link(fabric.LinkID(i))
		for _, e := range []struct {
			d        LinkDir
			from, to fabric.End
		}{{Upward(l.ID), l.A, l.B}, {Downward(l.ID), l.B, l.A}} {
			d := &n.dirs[e.d]
			d.from, d.rate, d.delay = e.from.Node, l.Rate, l.Delay
			d.perByte = perByte(l.Rate)
			if from, to := n.regionOf(e.from.Node), n.regionOf(e.to.Node); from != to {
				d.farRegion = to
			}
			n.arrivals[e.d].to = e.to
			n.arrivals[e.d].toHost = f.Node(e.to.Node).Tier == fabric.Host
		}
	}
	for i := range n.ports {
		n.ports[i].node = fabric.NodeID(i % f.Hosts())
		n.ports[i].out = n.SendDirection(n.ports[i].node, fabric.PortNo(i/f.Hosts()+1))
	}
	for i := range n.switches {
		node := f.Node(fabric.NodeID(f.Hosts() + i))
		for p := range node.Ports() {
			n.switches[i].out = append(n.switches[i].out, n.SendDirection(node.ID, fabric.PortNo(p+1)))
		}
	}
	return n, nil
}

func (n *Network) newRegion(index, count int) *region {
	r := &region{
		net: n, cfg: &n.cfg, fab: n.fab, flow: n.flow, index: index, firstCrossing: math.MaxInt64,
		pool:      n.pool,
		overhead:  int64(n.cfg.Overhead),
		admission: n.admission,
		topClass:  uint8(n.cfg.Classes - 1),
		cellShift: -1,
		dirs:      n.dirs, arrivals: n.arrivals, ports: n.ports, hosts: n.hosts, switches: n.switches, logs: n.logs,
		receiving: -1,
	}
	if r.pool == nil {
		r.pool = new(packetPool)
	}
	for i := range r.crossings {
		r.crossings[i] = make([][]crossing, count)
	}
	if n.cfg.Cell&(n.cfg.Cell-1) == 0 {
		r.cellShift = bits.TrailingZeros(uint(n.cfg.Cell))
	}
	return r
}

// Fabric returns the fabric the network was built from.
func (n *Network) Fabric() *fabric.Fabric { return n.fab }

// SetSwitch sets a switch's pipeline.
func (n *Network) SetSwitch(node fabric.NodeID, p Pipeline) {
	s := n.switchAt(node)
	s.pipeline = p
	s.inPlace, _ = p.(InPlace)
}

// SetHost sets a host's endpoint, from which the network requests a first packet now, or at time 0 if the run has not
// begun.
func (n *Network) SetHost(node fabric.NodeID, e Endpoint) {
	ported, several := e.(MultiPort)
	for q := range n.fab.Planes() {
		h := &n.ports[int(node)+q*len(n.hosts)]
		if h.endpoint = e; several {
			h.endpoint = ported.Port(q)
		}
	}
	n.Wake(node)
}

func (n *Network) regionOf(node fabric.NodeID) *region { return n.regions[n.owner[node]] }

// Regions returns the number of regions into which the network is divided.
func (n *Network) Regions() int { return len(n.regions) }

// Region returns the number of the region of a node.
func (n *Network) Region(node fabric.NodeID) int { return int(n.owner[node]) }

// Cores returns the number of goroutines that simulate regions.
func (n *Network) Cores() int { return n.cores }

// Lookahead returns the length of the windows of time in which regions are simulated independently: the shortest delay
// of a link between them. It is math.MaxInt64 if there is one region.
func (n *Network) Lookahead() fabric.Time { return n.lookahead }

// Now returns the simulated time. With several regions it must not be called from events of a node, which get their
// time.
func (n *Network) Now() fabric.Time {
	if len(n.regions) == 1 {
		return n.regions[0].now
	}
	return n.now
}

// checkComplete returns an error for a node without an endpoint or pipeline.
func (n *Network) checkComplete() error {
	for i := range n.hosts {
		if n.hosts[i].endpoint == nil {
			return fmt.Errorf("%w: %s has no endpoint; call SetHost", ErrNoSwitch, n.fab.Name(fabric.NodeID(i)))
		}
	}
	for i := range n.switches {
		if n.switches[i].pipeline == nil {
			return fmt.Errorf("%w: %s has no pipeline; call SetSwitch", ErrNoSwitch,
				n.fab.Name(fabric.NodeID(len(n.hosts)+i)))
		}
	}
	return nil
}

// progressEvery is the number of events between two looks at the context.
const progressEvery = 1024

// Run advances time until no event is left at or before until, ctx ends (it returns ctx's cause), Stop is called (it
// returns nil), or a contract is violated. It may be called again to continue. Afterwards Now is until if later events
// remain, otherwise the time of the last event.
func (n *Network) Run(ctx context.Context, until fabric.Time) error {
	return n.RunSteps(ctx, until, Never, func() bool { return true })
}

// RunSteps calls Run repeatedly, for the time every each, up to until, and between two calls the function between,
// which ends it by returning false. The goroutines of several regions last for all calls.
func (n *Network) RunSteps(ctx context.Context, until, every fabric.Time, between func() (more bool)) error {
	if err := n.checkComplete(); err != nil {
		return err
	}
	var t *regionTeam
	if len(n.regions) > 1 {
		t = n.startTeam()
		defer t.disperse()
	}
	for by := n.Now(); ; {
		if by += every; by > until || by < 0 {
			by = until
		}
		if err := n.runTo(ctx, by, t); err != nil {
			return err
		}
		if !between() || by == until {
			return nil
		}
	}
}

// runTo is one step; t is nil where there is one region.
func (n *Network) runTo(ctx context.Context, until fabric.Time, t *regionTeam) error {
	defer n.publish()
	if t != nil {
		return n.runRegions(ctx, until, t)
	}
	r := n.regions[0]
	for {
		if r.events%progressEvery == 0 {
			n.publish()
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
		if n.stop.Load() {
			n.stop.Store(false)
			return nil
		}
		if !r.step(until) {
			if _, more := r.next(); more {
				r.now = max(r.now, until)
			}
			return r.err
		}
		if r.err != nil {
			return r.err
		}
	}
}

// Stop makes Run return after the present event, or the next Run return at once. It is safe for concurrent use.
func (n *Network) Stop() { n.stop.Store(true) }

// Progress is how far a run has advanced.
type Progress struct {
	Now    fabric.Time
	Events int64
	Hops   int64 // packets that have crossed a link
}

func (n *Network) publish() {
	events, hops := int64(0), int64(0)
	for _, r := range n.allRegions {
		events, hops = events+r.events, hops+r.hops
	}
	n.progress.now.Store(int64(n.Now()))
	n.progress.events.Store(events)
	n.progress.hops.Store(hops)
}

// Progress returns how far the run has advanced, as of at most some thousand events ago. It is safe for concurrent use.
func (n *Network) Progress() Progress {
	return Progress{
		Now:    fabric.Time(n.progress.now.Load()),
		Events: n.progress.events.Load(),
		Hops:   n.progress.hops.Load(),
	}
}
