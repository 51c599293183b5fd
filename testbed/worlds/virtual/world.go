package virtual

import (
	"fmt"
	"strconv"
	"sync"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/p4src"
	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/roce/frame"
	"github.com/ethereal-fabric/ethereal/roce/transport"
	"github.com/ethereal-fabric/ethereal/testbed/balance"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/sim"
	"github.com/ethereal-fabric/ethereal/testbed/workload/bound"
)

// framing returns the run's overhead per frame on the wire: Ethernet's, or the one that makes full packets as long
// as the scenario says.
func framing(run scenario.Run) int64 {
	if h := int64(run.Scenario.Host.Headers); h > 0 {
		return h - headerBytes - ipBytes(run)
	}
	return fabric.FrameOverhead
}

// controlPriority is the queue of acknowledgements and quenches.
const controlPriority = 1

// world is one run. It belongs to the goroutine that simulates.
type world struct {
	lab  *Lab
	run  scenario.Run
	obs  scenario.Observer
	f    *fabric.Fabric
	spec balance.Spec
	net  *sim.Network

	traces   []*interp.Traces // by region, one for all regions of one core; nil: the interpreter processes all packets
	switches []*node          // by NodeID - Hosts
	hosts    []*hostShell     // by NodeID
	// controllers are one per plane.
	controllers []*controllerSessions
	servers     servers
	clearances  *clearances // nil: a message is sent when its sender has reached its step
	late        scenario.Lateness
	format      bound.Format
	job         job
	log         *sim.JSONL

	incoming       []int64       // by rank: total bytes to receive; on several cores only
	unfinishedRank fabric.NodeID // a rank that will not finish soon

	finished bool
	end      fabric.Time // of the collective
	fault    error       // a part broke its contract: the run is invalid
	faultMu  sync.Mutex  // for fault, while regions run side by side

	firstCut fabric.Time // -1: no cut yet
	lastFlip fabric.Time // -1: no flip yet
	timeline []report.Event
	flips    []report.FlipEvent
}

// newWorld builds a run. tracer, if not nil, receives the same events as the event log.
func newWorld(lab *Lab, run scenario.Run, obs scenario.Observer, tracer sim.Tracer) (*world, error) {
	if err := run.Ready(); err != nil {
		return nil, err
	}
	if err := checkPlanes(run); err != nil {
		return nil, err
	}
	s := run.Scenario
	w := &world{
		lab: lab, run: run, obs: obs, f: run.Fabric, firstCut: -1, lastFlip: -1,
		servers: newServers(run), late: run.Lateness(), format: format(run),
	}
	var err error
	if w.spec, err = run.Scheme.Spec(); err != nil {
		return nil, err
	}
	control, err := s.Host.ControlFor(run.Scheme.Name).Spec()
	if err != nil {
		return nil, err
	}
	if s.FlowControl().Enabled() {
		if c := w.f.PauseCycle(); c != nil {
			return nil, fmt.Errorf("lossless switches could deadlock: %s and %d other links wait for each other", w.f.LinkName(c[0].Link), len(c)-1)
		}
	}
	if w.job, err = w.newJob(); err != nil {
		return nil, err
	}
	config := sim.Config{
		Fabric: w.f, Buffer: s.Switch.Buffer, Alpha: s.Switch.Alpha, Cell: int(s.Switch.Cell),
		Classes: controlPriority + 1, Overhead: int(framing(run)), PFC: s.FlowControl(), Trim: s.Switch.Trim, Tracer: tracer,
		Regions: w.regions(), Cores: obs.Cores, InOrder: w.job.inOrder,
	}
	if stamp := control.Needs.Stamp; stamp != nil {
		config.Stamp = func(hdr []byte, h sim.Hop) { stamp(hdr, transport.Hop(h)) }
	}
	if obs.Events != nil {
		w.log = sim.NewJSONL(obs.Events, w.f)
		config.Tracer = w.log
	}
	if rec := obs.Recorder; rec != nil {
		if config.Tracer = rec; w.log != nil {
			config.Tracer = sim.Tracers{w.log, rec}
		}
	}
	if w.net, err = sim.New(config); err != nil {
		return nil, err
	}
	for _, c := range obs.Captures {
		if err := w.net.Tap(c.Link, c.W, sim.TapConfig{Finish: finishFrame}); err != nil {
			return nil, err
		}
	}
	for q := range w.f.Planes() {
		c, err := newController(w, q)
		if err != nil {
			return nil, err
		}
		w.controllers = append(w.controllers, c)
	}
	if !lab.untraced {
		w.traces = make([]*interp.Traces, w.net.Regions())
		for i := range w.traces {
			if w.traces[i] = w.traces[0]; i == 0 || w.net.Cores() > 1 {
				w.traces[i] = interp.NewTraces(lab.program)
			}
		}
	}
	for i := range w.f.Switches() {
		n, err := w.newNode(fabric.NodeID(w.f.Hosts() + i))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", w.f.Name(fabric.NodeID(w.f.Hosts()+i)), err)
		}
		w.switches = append(w.switches, n)
	}
	if w.late.ClearToSendDelay() > 0 {
		w.clearances = newClearances(w)
	}
	for _, c := range w.controllers {
		if err := c.takeOver(); err != nil {
			return nil, err
		}
	}
	for h := range w.f.Hosts() {
		host, err := w.newHost(fabric.NodeID(h))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", w.f.Name(fabric.NodeID(h)), err)
		}
		w.hosts = append(w.hosts, host)
	}
	for rank := range w.hosts {
		w.host(rank).rank = rank
	}
	return w, nil
}

// finishFrame gives a captured frame the invariant CRC for a payload of zeros, as in the capture.
func finishFrame(raw []byte, _ int) {
	if f, err := frame.Parse(raw); err == nil {
		f.SetICRC()
	}
}

// start schedules the failures and starts the collective at time 0.
func (w *world) start() {
	for _, e := range w.run.Events {
		w.net.At(e.At, func(now fabric.Time) { w.linkEvent(now, e) })
		w.net.At(e.At+e.Detection, func(now fabric.Time) { w.detect(now, e) })
	}
	for _, i := range w.run.Interventions {
		w.net.At(i.At, func(now fabric.Time) { w.intervene(now, i) })
	}
	w.obs.Recorder.Begin()
	for _, c := range w.controllers { // agents learn of the dead and slow links known so far
		if u := c.Snapshot(); len(u.GetRates())+len(u.GetLinks()) > 0 {
			c.Update(0, u)
		}
	}
	w.net.At(0, func(fabric.Time) { w.job.start() })
}

func (w *world) node(id fabric.NodeID) *node { return w.switches[int(id)-w.f.Hosts()] }

// fail ends the run, because a part broke its contract.
func (w *world) fail(err error) {
	w.faultMu.Lock()
	defer w.faultMu.Unlock()
	if w.fault == nil {
		w.fault = err
		w.net.Stop()
	}
}

func upDown(up bool) string {
	if up {
		return "up"
	}
	return "down"
}

// controllerConfig returns the scenario's configuration of a plane's tables.
func (w *world) controllerConfig(plane *fabric.Fabric) (controller.Config, error) {
	s := w.run.Scenario
	balancer, err := w.spec.Switches(w.run.Scheme.Params, balance.SwitchConfig{
		Buffer: s.Switch.Buffer, Ports: w.f.Node(w.f.ToRID(0)).Ports(), Unit: s.Switch.Cell,
	})
	c := controller.Config{
		Fabric: plane, Instance: "virtual-" + strconv.FormatUint(w.run.Seed, 10),
		ECN: controller.ECN{
			Kmin: s.Switch.ECN.KMin, Kmax: s.Switch.ECN.KMax, Pmax: s.Switch.ECN.PMax, Unit: s.Switch.Cell,
		},
		Balancer:         balancer,
		QuenchIntervalUs: p4src.NeverQuench,
		ControlPriority:  controlPriority,
		CloneClass:       controlPriority,
		HashSeed:         uint32(w.run.Seed),
		EqualHashes:      s.Switch.EqualHashes,
		MaxGroupSize:     w.lab.schema.MaxGroupSize(),
	}
	c.CarrierV4, c.CarrierV6 = s.Host.Carrier.Tables()
	if w.run.Notifier.Quench() {
		c.QuenchIntervalUs = uint32(s.Switch.QuenchInterval / fabric.Microsecond)
	}
	return c, err
}
