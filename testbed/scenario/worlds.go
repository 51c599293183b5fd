package scenario

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/transport"
)

// Names of worlds.
const (
	WorldVirtual = "virtual"
	WorldFlow    = "flow"
	WorldLive    = "live"
	WorldMininet = "mininet"
	WorldLab     = "lab"
)

// WorldNames returns the names of all worlds.
func WorldNames() []string {
	return []string{WorldVirtual, WorldFlow, WorldLive, WorldMininet, WorldLab}
}

// Worlds is how a scenario is changed for each world that cannot run it as it is.
type Worlds struct {
	Virtual Setting `yaml:"virtual"`
	Flow    Setting `yaml:"flow"`
	Live    Setting `yaml:"live"`
	Mininet Setting `yaml:"mininet"`
	Lab     Setting `yaml:"lab"`
}

// Setting is how a scenario's times, sizes and rates are changed for one world.
type Setting struct {
	// Time multiplies the times of events and expectations. 0: 1.
	Time float64 `yaml:"time"`
	// Bytes replaces the collectives' sizes. 0: unchanged.
	Bytes fabric.Bytes `yaml:"bytes"`
	// Deadline replaces the scenario's. 0: unchanged.
	Deadline fabric.Time `yaml:"deadline"`
	// Rate replaces the rate of all links. 0: unchanged.
	Rate fabric.Rate `yaml:"rate"`
	// Skip is why the scenario cannot run in this world.
	Skip string `yaml:"skip"`
}

// Default settings where packets are real and a machine's processors carry them. 16 MB at 400 Gb/s take 305 us;
// these take 4000 times as long, in Mininet 8000 times.
const (
	wallTimeFactor       = 4000
	wallMessageBytes     = 800e3
	wallRate             = 5 * fabric.Mbps
	bmv2TimeFactor       = 8000
	bmv2MessageBytes     = 160e3
	bmv2Rate             = fabric.Mbps / 2 // 2,300 packets per second through all switches; BMv2 manages about 4,700 on two cores
	wallDeadline         = 60 * fabric.Second
	wallPayload          = 4096
	wallRTO              = 2 * fabric.Second  // longer than the queueing of an incast
	wallFailedPathMemory = 30 * fabric.Second // of failed paths
)

// isSimulated reports whether a world has simulated time.
func isSimulated(world string) bool {
	return world == WorldVirtual || world == WorldFlow || world == ""
}

// For returns the setting for a world.
func (w Worlds) For(world string) Setting {
	s := map[string]Setting{
		WorldVirtual: w.Virtual, WorldFlow: w.Flow, WorldLive: w.Live, WorldMininet: w.Mininet, WorldLab: w.Lab,
	}[world]
	times, bytes, rate, deadline := 1.0, fabric.Bytes(0), fabric.Rate(0), fabric.Time(0)
	switch {
	case isSimulated(world):
	case world == WorldMininet: // where switches may be BMv2
		times, bytes, rate, deadline = bmv2TimeFactor, bmv2MessageBytes, bmv2Rate, wallDeadline
	default:
		times, bytes, rate, deadline = wallTimeFactor, wallMessageBytes, wallRate, wallDeadline
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
		s.Deadline = deadline
	}
	return s
}

// Adapts reports whether the scenario is changed for some worlds: it has expectations, or settings for worlds.
func (s *Scenario) Adapts() bool { return len(s.Expect) > 0 || s.Worlds != (Worlds{}) }

// ForWorld returns the scenario as adapted to a world's capabilities. A scenario without expectations and without
// settings for worlds is not changed.
func (s *Scenario) ForWorld(world string) *Scenario {
	if !s.Adapts() {
		return s
	}
	set := s.Worlds.For(world)
	out := *s
	out.Collectives = slices.Clone(s.Collectives)
	for i := range out.Collectives {
		if set.Bytes != 0 && out.Collectives[i].Kind != Workload {
			out.Collectives[i].Bytes = set.Bytes
		}
	}
	if set.Deadline != 0 {
		out.Deadline = set.Deadline
	}
	out.Slowed = set.Rate
	if !isSimulated(world) {
		// The soft endpoint has no congestion control and no reordering.
		out.Host.Payload, out.Host.RTO, out.Host.CongestionControl, out.Host.Receiver = wallPayload, wallRTO, transport.NoControl, GoBackN
		out.Host.CongestionParams = nil
		out.Switch.ECN, out.Agent.FailedPathMemory = ECN{PMax: 1}, wallFailedPathMemory
	}
	out.Failures = slices.Clone(s.Failures)
	for i := range out.Failures {
		out.Failures[i].Events = s.stretchEvents(out.Failures[i].Events, set, out.slowedFabric())
	}
	out.Expect = nil
	for _, x := range s.Expect {
		if len(x.Worlds) == 0 || slices.Contains(x.Worlds, world) {
			for _, a := range []*Amount{&x.Min, &x.Max, &x.Is} {
				if a.Time {
					a.Value *= set.Time
				}
			}
			out.Expect = append(out.Expect, x)
		}
	}
	out.Stretched = s.stretchText(world, &out)
	return &out
}

// stretchEvents returns events as adapted to a world whose fabric is to.
func (s *Scenario) stretchEvents(events []Event, set Setting, to fabric.Spec) []Event {
	from, err := fabric.New(s.Fabric)
	here, err2 := fabric.New(to)
	if err != nil || err2 != nil {
		return events // Expand reports the error
	}
	stretch := func(t fabric.Time) fabric.Time { return fabric.Time(float64(t) * set.Time) }
	out := slices.Clone(events)
	for i := range out {
		e := &out[i]
		e.At, e.Period, e.Down = stretch(e.At), stretch(e.Period), stretch(e.Down)
		e.When = slices.Clone(e.When)
		for j := range e.When {
			e.When[j].Plus = stretch(e.When[j].Plus)
		}
		if links, err := e.Links(from, 0); e.Action == Degrade && set.Rate != 0 && err == nil && len(links) > 0 {
			l := links[0]
			e.Rate = scaledRate(e.Rate, from.Link(l).Rate, here.Link(l).Rate)
		}
	}
	return out
}

// scaledRate scales a rate of a link from full to here.
func scaledRate(rate, full, here fabric.Rate) fabric.Rate {
	if rate >= full {
		return here
	}
	return max(fabric.Rate(float64(rate)*float64(here)/float64(full)), fabric.Kbps)
}

// slowedFabric returns the fabric with its links' rates in this world. The scenario keeps its own, because such slow
// links are invalid in a scenario.
func (s *Scenario) slowedFabric() fabric.Spec {
	spec := s.Fabric
	if s.Slowed == 0 {
		return spec
	}
	links := []*fabric.LinkSpec{&spec.HostLink, &spec.ToRUplink}
	if spec.Kind != fabric.KindLeafSpine {
		links = append(links, &spec.AggUplink)
	}
	for _, l := range links {
		if l.Rate = s.Slowed; l.Delay == 0 {
			l.Delay = fabric.DefaultDelay
		}
	}
	return spec
}

func (w Worlds) check(bad reportError) {
	for _, name := range WorldNames() {
		s := w.For(name)
		if !(s.Time > 0 && s.Time <= 1e9) {
			bad("worlds."+name+".time", fmt.Sprintf("%g is not a factor", s.Time), "write for example 1000")
		}
		if s.Rate < 0 || s.Bytes < 0 || s.Deadline < 0 || strings.Contains(s.Skip, "\n") {
			bad("worlds."+name, "has a value below zero, or a skip of several lines", "correct it")
		}
	}
}
