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

// Config sets up a [Core], which finds the links that lose packets although both ends report them up. Zero times and
// numbers mean the defaults.
type Config struct {
	Fabric *fabric.Fabric
	// Gather is how long reports are collected, from the first one that no known failure explains. Default 50 us, as
	// the time-outs of one failure come together.
	Gather fabric.Time
	// Memory is how long a report counts. Default 10 ms, several time-outs.
	Memory fabric.Time
	// Hold is how long a link stays suspected without probe results. A link that is suspected again within this time
	// counts as a relapse. Default 100 ms.
	Hold fabric.Time
	// Forget is how long a link stays suspected after the last lost probe or report against it. Default 10 s, longer
	// than any pause between two rounds of probes.
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
	// Trials is the number of rounds of probes, one after the other, in which a link must lose packets before it is
	// suspected. Default 1. With 2 or more, reports alone make no link suspected: use it for switches and hosts in
	// software, which lose packets and answer late when their machine is busy. ProbeTimeout doubles with each round,
	// up to 16 times, so that a short time in which processes wait for a processor does not span all rounds.
	Trials int
	// Most is the largest number of links suspected at once. Default: an eighth of the links between switches, at least
	// 4.
	Most int
	// NoProbes is for agents that cannot probe. Suspicions then end after Hold, and if reports fit several links, all
	// remain suspects.
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
