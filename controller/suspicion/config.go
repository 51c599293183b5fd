package suspicion

import (
	"errors"
	"fmt"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Errors of this package, wrapped where they occur.
var (
	ErrConfig = errors.New("suspicion: bad config")
	ErrReport = errors.New("suspicion: bad report")
)

// Config sets up a [Core]. Zero times and numbers mean the defaults.
type Config struct {
	Fabric *fabric.Fabric
	// Gather is the time for which reports are collected, from the first report without an explanation. Default 50
	// us: the time-outs of one failure come together.
	Gather fabric.Time
	// Memory is the time for which a report counts. Default 10 ms, several time-outs.
	Memory fabric.Time
	// Hold is the time for which a suspicion without probe results stands. It is also the time after a link was
	// cleared during which another suspicion counts as a relapse. Default 100 ms.
	Hold fabric.Time
	// Forget is the time for which a confirmed suspicion stands after the last probe or report in its favour.
	// Default 10 s: longer than any pause between two rounds of probes.
	Forget fabric.Time
	// Agents is the number of agents that must report before a link is suspected without probes. Default 2.
	Agents int
	// Packets is the number of packets in a probe. Default 16.
	Packets int
	// ProbeTimeout is the time allowed for a probe's answer. Default 1 ms.
	ProbeTimeout fabric.Time
	// ProbeEvery is the time between rounds of probes; it doubles with every lossy or unanswered round up to
	// ProbeMost. Defaults 500 us and 1 s.
	ProbeEvery, ProbeMost fabric.Time
	// CleanRounds is the number of rounds without loss that clear a link. Default 2.
	CleanRounds int
	// Trials is the number of trials by probes, one after the other, that a link must lose before it is suspected.
	// Default 1. With 2 or more, reports alone suspect no link: for switches and hosts in software, which lose packets
	// and answer late when their machine is busy.
	Trials int
	// Most is the largest number of links suspected at a time. Default: an eighth of the links between switches, at
	// least 4.
	Most int
	// NoProbes is for agents that cannot probe: suspicions end with Hold, and links that reports alone cannot
	// distinguish stay undistinguished.
	NoProbes bool
}

// Validate returns the first error in c.
func (c Config) Validate() error {
	if c.Fabric == nil {
		return fmt.Errorf("%w: Fabric: missing", ErrConfig)
	}
	for _, t := range []struct {
		name string
		v    fabric.Time
	}{
		{"Gather", c.Gather}, {"Memory", c.Memory}, {"Hold", c.Hold}, {"Forget", c.Forget}, {"ProbeTimeout", c.ProbeTimeout},
		{"ProbeEvery", c.ProbeEvery}, {"ProbeMost", c.ProbeMost},
	} {
		if t.v < 0 {
			return fmt.Errorf("%w: %s: %v is below 0", ErrConfig, t.name, t.v)
		}
	}
	for _, n := range []struct {
		name string
		v    int
	}{{"Agents", c.Agents}, {"Packets", c.Packets}, {"CleanRounds", c.CleanRounds}, {"Trials", c.Trials}, {"Most", c.Most}} {
		if n.v < 0 {
			return fmt.Errorf("%w: %s: %d is below 0", ErrConfig, n.name, n.v)
		}
	}
	if c.NoProbes && c.Trials > 1 {
		return fmt.Errorf("%w: Trials: %d without probes: no link would be suspected", ErrConfig, c.Trials)
	}
	return nil
}

func (c Config) withDefaults() Config {
	setZero(&c.Gather, 50*fabric.Microsecond)
	setZero(&c.Memory, 10*fabric.Millisecond)
	setZero(&c.Hold, 100*fabric.Millisecond)
	setZero(&c.Forget, 10*fabric.Second)
	setZero(&c.Agents, 2)
	setZero(&c.Packets, 16)
	setZero(&c.ProbeTimeout, fabric.Millisecond)
	setZero(&c.ProbeEvery, 500*fabric.Microsecond)
	setZero(&c.ProbeMost, fabric.Second)
	setZero(&c.CleanRounds, 2)
	setZero(&c.Trials, 1)
	setZero(&c.Most, max(4, (c.Fabric.Links()-c.Fabric.Hosts())/8))
	return c
}

func setZero[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}
