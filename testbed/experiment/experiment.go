package experiment

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// Experiment is a scenario with steps and expectations. It has one collective,
// one scheme and one seed.
type Experiment struct {
	File     string
	Scenario *scenario.Scenario
	Fabric   *fabric.Fabric

	Notifier scenario.Notifier
	Steps    []Step
	Expect   []Expectation
	Worlds   Worlds
}

// Action is what a [Step] does.
type Action string

// Actions. Steps about links take Link, those about nodes Node.
const (
	LinkDown       Action = "link-down"       // by gNMI Set of config/enabled where there is gNMI
	LinkUp         Action = "link-up"         // the same, back
	NodeDown       Action = "node-down"       // the switch dies: all its links with it
	NodeUp         Action = "node-up"         // it is back
	Flap           Action = "flap"            // the link goes down and up, Times times, every Period
	Gray           Action = "gray"            // the link loses Loss of its packets, and nobody notices
	Rate           Action = "rate"            // the link carries Rate from now on
	ControllerDown Action = "controller-down" // killed
	ControllerUp   Action = "controller-up"   // started, and knows nothing
	AgentDown      Action = "agent-down"      // killed
	AgentUp        Action = "agent-up"        // started again
	Drain          Action = "drain"           // asked of the controller: Link, or all links of Node
	Undrain        Action = "undrain"         // taken back
)

// Actions returns all actions.
func Actions() []Action {
	return []Action{LinkDown, LinkUp, NodeDown, NodeUp, Flap, Gray, Rate,
		ControllerDown, ControllerUp, AgentDown, AgentUp, Drain, Undrain}
}

// Step is something done to a fabric at a time from the start of the collective.
type Step struct {
	At   fabric.Time `yaml:"at" required:"for example 20us after the start of the collective"`
	Do   Action      `yaml:"do" required:"for example link-down"`
	Link string      `yaml:"link"`
	Node string      `yaml:"node"`
	// Detection is how much later the switches at a link's ends know of its
	// failure. The virtual world's alone: elsewhere it takes what it takes.
	Detection fabric.Time `yaml:"detection"`
	Period    fabric.Time `yaml:"period"` // of Flap: from down to down
	Times     int         `yaml:"times"`  // of Flap
	Loss      float64     `yaml:"loss"`   // of Gray: 0 to 1
	Rate      fabric.Rate `yaml:"rate"`   // of Rate
}

func (s Step) String() string {
	where := s.Link + s.Node
	switch s.Do {
	case Flap:
		return fmt.Sprintf("%s %s, %d times, every %v", s.Do, where, s.Times, s.Period)
	case Gray:
		return fmt.Sprintf("%s %s, %g %% lost", s.Do, where, 100*s.Loss)
	case Rate:
		return fmt.Sprintf("%s %s, %v", s.Do, where, s.Rate)
	}
	return strings.TrimSpace(string(s.Do) + " " + where)
}

// Worlds are an experiment's settings for each world.
type Worlds struct {
	Virtual Setting `yaml:"virtual"`
	Live    Setting `yaml:"live"`
	Mininet Setting `yaml:"mininet"`
	Lab     Setting `yaml:"lab"`
}

// Setting stretches an experiment to what a world can do.
type Setting struct {
	// Time multiplies the times of steps and of expectations. 0: 1.
	Time float64 `yaml:"time"`
	// Bytes replaces the collective's. 0: it does not.
	Bytes fabric.Bytes `yaml:"bytes"`
	// Deadline replaces the scenario's. 0: it does not.
	Deadline fabric.Time `yaml:"deadline"`
	// Rate replaces that of all links. 0: it does not.
	Rate fabric.Rate `yaml:"rate"`
	// Skip says why the experiment cannot be done in this world.
	Skip string `yaml:"skip"`
}

// Names of worlds.
const (
	Virtual = "virtual"
	Live    = "live"
	Mininet = "mininet"
	Lab     = "lab"
)

// WorldNames returns the names of all worlds.
func WorldNames() []string { return []string{Virtual, Live, Mininet, Lab} }

// For returns the setting for a world.
func (w Worlds) For(world string) Setting {
	s := map[string]Setting{Virtual: w.Virtual, Live: w.Live, Mininet: w.Mininet, Lab: w.Lab}[world]
	if world == Virtual || world == "" {
		if s.Time == 0 {
			s.Time = 1
		}
		return s
	}
	times, bytes, rate := float64(wallTime), fabric.Bytes(wallBytes), wallRate
	if world == Mininet { // where switches may be BMv2
		times, bytes, rate = bmv2Time, bmv2Bytes, bmv2Rate
	}
	if s.Time == 0 {
		s.Time = times
	}
	if s.Bytes == 0 {
		s.Bytes = bytes
	}
	if s.Rate == 0 {
		s.Rate = rate
	}
	if s.Deadline == 0 {
		s.Deadline = wallDeadline
	}
	return s
}

// What experiments are by default where packets are real and a machine's
// processors carry them. 16 MB at 400 Gb/s last 305 us; these last 4000 times that,
// in Mininet 8000 times.
const (
	wallTime     = 4000
	wallBytes    = 800e3
	wallRate     = 5 * fabric.Mbps
	bmv2Time     = 8000
	bmv2Bytes    = 160e3
	bmv2Rate     = fabric.Mbps / 2 // 2,300 packets a second through all switches; BMv2 takes some 4,700 of two cores
	wallDeadline = 60 * fabric.Second
	wallPayload  = 4096
	wallRTO      = 2 * fabric.Second  // above what the queues of an incast hold
	wallMemory   = 30 * fabric.Second // of failed paths
)

// In returns the experiment as it is in a world: stretched.
func (e *Experiment) In(world string) *Experiment {
	set := e.Worlds.For(world)
	out := *e
	s := *e.Scenario
	out.Scenario = &s
	s.Collectives = slices.Clone(s.Collectives)
	if set.Bytes != 0 {
		s.Collectives[0].Bytes = set.Bytes
	}
	if set.Deadline != 0 {
		s.Deadline = set.Deadline
	}
	if set.Rate != 0 {
		// The scenario keeps its own: so slow a link is no scenario's.
		spec := s.Fabric
		links := []*fabric.LinkSpec{&spec.HostLink, &spec.ToRUplink}
		if e.Fabric.ThreeTier() {
			links = append(links, &spec.AggUplink)
		}
		for _, l := range links {
			if l.Rate = set.Rate; l.Delay == 0 {
				l.Delay = fabric.DefaultDelay
			}
		}
		if f, err := fabric.New(spec); err == nil { // it was one before
			out.Fabric = f
		}
	}
	if world != Virtual {
		// The soft endpoint has no congestion control and no reordering.
		s.Host.Payload, s.Host.RTO, s.Host.CongestionControl, s.Host.Receiver = wallPayload, wallRTO, scenario.NoCC, scenario.GoBackN
		s.Switch.ECN, s.Agent.FailedPathMemory = scenario.ECN{PMax: 1}, wallMemory
	}
	stretch := func(t fabric.Time) fabric.Time { return fabric.Time(float64(t) * set.Time) }
	out.Steps = slices.Clone(e.Steps)
	for i := range out.Steps {
		st := &out.Steps[i]
		st.At, st.Period = stretch(st.At), stretch(st.Period)
		if id, err := e.Fabric.LinkByName(st.Link); st.Do == Rate && world != Virtual && err == nil {
			st.Rate = scaledRate(st.Rate, e.Fabric.Link(id).Rate, out.Fabric.Link(id).Rate)
		}
	}
	slices.SortStableFunc(out.Steps, func(a, b Step) int {
		switch {
		case a.At < b.At:
			return -1
		case a.At > b.At:
			return 1
		}
		return 0
	})
	out.Expect = nil
	for _, x := range e.Expect {
		if len(x.Worlds) == 0 || slices.Contains(x.Worlds, world) {
			for _, a := range []*Amount{&x.Min, &x.Max, &x.Is} {
				if a.Time {
					a.Value *= set.Time
				}
			}
			out.Expect = append(out.Expect, x)
		}
	}
	return &out
}

// scaledRate returns what a rate of a link that has full is to one that has here. A
// link that gets its own back is not limited, which is 0: it has no rate of its own
// where packets are real.
func scaledRate(rate, full, here fabric.Rate) fabric.Rate {
	if rate >= full {
		return 0
	}
	return max(fabric.Rate(float64(rate)*float64(here)/float64(full)), fabric.Kbps)
}

// Load reads an experiment from a file. Its errors are those of scenario.Load.
func Load(path string) (*Experiment, error) {
	e := newExperiment(path)
	s, err := scenario.LoadWith(path, e.extra(), e.check)
	if err != nil {
		return nil, err
	}
	e.Scenario = s
	return e, nil
}

// Parse reads an experiment from memory. name goes into messages; read fetches a
// file that is named in it, and may be nil.
func Parse(name string, data []byte, read func(path string) ([]byte, error)) (*Experiment, error) {
	e := newExperiment(name)
	s, err := scenario.ParseWith(name, data, read, e.extra(), e.check)
	if err != nil {
		return nil, err
	}
	e.Scenario = s
	return e, nil
}

func newExperiment(name string) *Experiment {
	return &Experiment{File: name, Notifier: scenario.NotifyAll}
}

func (e *Experiment) extra() map[string]any {
	return map[string]any{"notifier": &e.Notifier, "steps": &e.Steps, "expect": &e.Expect, "worlds": &e.Worlds}
}

// check complains about what is wrong, and resolves the fabric.
func (e *Experiment) check(s *scenario.Scenario, complain func(key, problem, remedy string)) {
	f, err := fabric.New(s.Fabric)
	if err != nil {
		complain("fabric", err.Error(), "")
		return
	}
	e.Fabric = f
	switch {
	case len(s.Collectives) != 1:
		complain("collectives", fmt.Sprintf("an experiment has one, not %d", len(s.Collectives)), "keep one")
	case len(s.Schemes) != 1:
		complain("schemes", fmt.Sprintf("an experiment has one, not %d", len(s.Schemes)), "keep one")
	case len(s.Seeds) != 1:
		complain("seeds", fmt.Sprintf("an experiment has one, not %d", len(s.Seeds)), "keep one")
	case len(s.Failures) != 1 || len(s.Failures[0].Events) > 0:
		complain("failures", "an experiment has steps instead", "write what happens below steps")
	}
	known := []scenario.Notifier{scenario.NotifyTimeout, scenario.NotifyQuench, scenario.NotifyGNMI, scenario.NotifyAll}
	if !slices.Contains(known, e.Notifier) {
		complain("notifier", fmt.Sprintf("%q is unknown", e.Notifier), fmt.Sprintf("write one of %v", known))
	}
	for i, st := range e.Steps {
		e.checkStep(st, fmt.Sprintf("steps[%d]", i), complain)
	}
	if len(e.Expect) == 0 {
		complain("expect", "nothing is expected", "write for example - {that: finished, is: true}")
	}
	for i, x := range e.Expect {
		x.check(f, fmt.Sprintf("expect[%d]", i), complain)
	}
	for _, w := range WorldNames() {
		if t := e.Worlds.For(w).Time; t < 0 || t > 1e9 {
			complain("worlds."+w+".time", fmt.Sprintf("%g is not a factor", t), "write for example 1000")
		}
	}
}

func (e *Experiment) checkStep(s Step, path string, complain func(key, problem, remedy string)) {
	if s.At < 0 || s.Detection < 0 {
		complain(path, "a time is negative", "count from the start of the collective")
	}
	needsLink, needsNode := false, false
	switch s.Do {
	case LinkDown, LinkUp, Flap, Gray, Rate:
		needsLink = true
	case NodeDown, NodeUp, AgentDown, AgentUp:
		needsNode = true
	case ControllerDown, ControllerUp:
	case Drain, Undrain:
		needsLink = s.Node == ""
		needsNode = !needsLink
	default:
		complain(path+".do", fmt.Sprintf("%q is unknown", s.Do), fmt.Sprintf("write one of %v", Actions()))
		return
	}
	switch {
	case needsLink && s.Link == "":
		complain(path+".link", "is missing", "name a link, as in tor0-agg0")
	case !needsLink && s.Link != "":
		complain(path+".link", fmt.Sprintf("%s has no link", s.Do), "remove it")
	case needsNode && s.Node == "":
		complain(path+".node", "is missing", "name a node, as in core0 or h0")
	case !needsNode && s.Node != "":
		complain(path+".node", fmt.Sprintf("%s has no node", s.Do), "remove it")
	}
	if s.Link != "" {
		if _, err := e.Fabric.LinkByName(s.Link); err != nil {
			complain(path+".link", strings.TrimPrefix(err.Error(), "fabric: "), "name a link, as in tor0-agg0")
		}
	}
	if s.Node != "" {
		id, err := e.Fabric.NodeByName(s.Node)
		isHost := err == nil && e.Fabric.Node(id).Tier == fabric.Host
		agent := s.Do == AgentDown || s.Do == AgentUp
		switch {
		case err != nil:
			complain(path+".node", strings.TrimPrefix(err.Error(), "fabric: "), "name a node, as in core0 or h0")
		case agent && !isHost:
			complain(path+".node", s.Node+" is no host", "name a host, as in h0")
		case !agent && isHost:
			complain(path+".node", s.Node+" is a host", "name a switch, as in core0")
		}
	}
	switch {
	case s.Do == Flap && (s.Times < 1 || s.Times > 10_000 || s.Period <= 0):
		complain(path, "a flap has times, from 1 to 10000, and a period", "write for example period: 50us, times: 4")
	case s.Do == Rate && s.Rate <= 0:
		complain(path+".rate", fmt.Sprintf("%v is no rate of a link that is up", s.Rate), "write for example 100Gb/s")
	case s.Do == Gray && !(s.Loss >= 0 && s.Loss <= 1):
		complain(path+".loss", fmt.Sprintf("%g is not a share", s.Loss), "write for example 0.01")
	}
}
