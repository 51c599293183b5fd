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

// Config sets up a [Core]. Times of 0 and numbers of 0 stand for the defaults.
type Config struct {
	Fabric *fabric.Fabric
	// Gather is how long reports are collected from the first that nothing
	// explains. Default 50 us: the time-outs of one failure come together.
	Gather fabric.Time
	// Memory is how long a report counts. Default 10 ms, several time-outs.
	Memory fabric.Time
	// Hold is how long a suspicion stands that no probe has said anything of, and
	// how long after a link was cleared another suspicion counts as a relapse.
	// Default 100 ms.
	Hold fabric.Time
	// Forget is how long a confirmed suspicion stands since a probe or a report last
	// spoke for it. Default 10 s: longer than any pause between two rounds of probes.
	Forget fabric.Time
	// Agents is how many agents must report before a link is suspected without
	// probes. Default 2.
	Agents int
	// Packets in a probe. Default 16.
	Packets int
	// ProbeTimeout is how long a probe's answer is waited for. Default 1 ms.
	ProbeTimeout fabric.Time
	// ProbeEvery is the time from a round of probes to the next; it doubles with
	// every lossy or unanswered round up to ProbeMost. Defaults 500 us and 1 s.
	ProbeEvery, ProbeMost fabric.Time
	// CleanRounds is how many rounds without loss clear a link. Default 2.
	CleanRounds int
	// Most is how many links may be suspected at a time. Default: an eighth of the
	// links between switches, at least 4.
	Most int
	// NoProbes is for agents that cannot probe: suspicions end with Hold, and
	// what reports alone cannot distinguish stays so.
	NoProbes bool
}

// Validate reports the first thing wrong with c.
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
	}{{"Agents", c.Agents}, {"Packets", c.Packets}, {"CleanRounds", c.CleanRounds}, {"Most", c.Most}} {
		if n.v < 0 {
			return fmt.Errorf("%w: %s: %d is below 0", ErrConfig, n.name, n.v)
		}
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
	setZero(&c.Most, max(4, (c.Fabric.Links()-c.Fabric.Hosts())/8))
	return c
}

func setZero[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}
