package hostagent

import (
	"errors"
	"fmt"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// ErrConfig is wrapped by every error of [Config.Validate].
var ErrConfig = errors.New("hostagent: bad config")

// Defaults of a [Config], those marked [ref] the reference evaluation's.
const (
	DefaultFailedPathMemory = 100 * fabric.Millisecond // [ref]
	DefaultStartJitter      = 50 * fabric.Nanosecond   // [ref]
	DefaultTimeoutGrace     = 20 * fabric.Microsecond
	DefaultQuenchBurst      = 128
	DefaultQuenchInterval   = 100 * fabric.Microsecond
	DefaultEpochWindow      = 1 << 16
	DefaultCalm             = fabric.Millisecond
	DefaultProbeEvery       = 250 * fabric.Microsecond
	DefaultSilence          = 5 * fabric.Second
)

// Config says for which host a [Core] decides, and how. A zero duration or
// count means its default.
type Config struct {
	Fabric *fabric.Fabric `json:"-"`
	Host   fabric.NodeID
	Seed   uint64 `json:",omitzero"` // of a run; the host's rank is mixed in

	// FailedPathMemory is for how long a time-out or a quench is believed.
	FailedPathMemory fabric.Time `json:",omitzero"`
	// StartJitter is the span over which the starts of labelled pieces are
	// spread, at random. Below zero: none.
	StartJitter fabric.Time `json:",omitzero"`
	// TimeoutGrace is for how long after a piece's flip its time-outs are not
	// held against the new path: the timer may have been started on the old
	// one. Keep it below the retransmission timeout. Below zero: none.
	TimeoutGrace fabric.Time `json:",omitzero"`

	// QuenchBurst and QuenchInterval bound how many quenches can change
	// anything: as many as QuenchBurst at once, one more each QuenchInterval.
	QuenchBurst    int         `json:",omitzero"`
	QuenchInterval fabric.Time `json:",omitzero"`
	// EpochWindow is how far a quench's epoch may be ahead of the last one
	// believed of its port.
	EpochWindow uint32 `json:",omitzero"`
	// Silence is how long after its last update or heartbeat a controller still counts as connected:
	// until then quenches that it does not confirm are limited. See the package comment, Trust.
	Silence fabric.Time `json:",omitzero"`

	// Losses is the test by which a path is left for what it loses ([Core.Lost]).
	Losses LossTest `json:",omitzero"`
	// Calm is for how long after a switch's mark a time-out can be due to congestion: as
	// long as a full buffer takes to drain.
	Calm fabric.Time `json:",omitzero"`
	// ProbeEvery is the time between two rounds of probes of a path that was left for
	// what it loses. It doubles with every round that loses any.
	ProbeEvery fabric.Time `json:",omitzero"`

	// Slow is the test by which a path counts as slow.
	Slow SlowTest `json:",omitzero"`

	// Whole is up to how many bytes a flow is not cut, but goes by the good path that has
	// the least outstanding: a packet's worth cannot be split evenly. 0: all are cut.
	Whole int64 `json:",omitzero"`

	// Fewest has flows of equal sizes cut as those of unequal ones are, into the fewest pieces and
	// not into equal ones: see [SplitFewest].
	Fewest bool `json:",omitzero"`
	// Slack is how many bytes of a batch to a ToR a path may carry above its share, so that fewer
	// flows are cut. Flows of equal sizes that Theorem 1 cuts know none. 0: the paths are even.
	Slack int64 `json:",omitzero"`

	// Uplinks is how many uplinks of its ToR, of each of its ToRs with planes, this host uses:
	// the hosts of a rack take equal shares in turn, so that together they use all alike. It is
	// for fabrics with more paths than a NIC has queue pairs for. 0: all.
	Uplinks int `json:",omitzero"`

	// Unshuffled keeps ToRs, flows and paths in the order given. It is for
	// tests: all hosts then start on the same path.
	Unshuffled bool `json:",omitzero"`
}

// Validate reports the first thing wrong with c.
func (c Config) Validate() error {
	switch {
	case c.Fabric == nil:
		return fmt.Errorf("%w: Fabric: missing", ErrConfig)
	case c.Host < 0 || int(c.Host) >= c.Fabric.Hosts():
		return fmt.Errorf("%w: Host: %d is not a host; hosts are 0 to %d", ErrConfig, c.Host, c.Fabric.Hosts()-1)
	case c.FailedPathMemory < 0:
		return fmt.Errorf("%w: FailedPathMemory: %v is below zero", ErrConfig, c.FailedPathMemory)
	case c.QuenchBurst < 0:
		return fmt.Errorf("%w: QuenchBurst: %d is below zero", ErrConfig, c.QuenchBurst)
	case c.QuenchInterval < 0:
		return fmt.Errorf("%w: QuenchInterval: %v is below zero", ErrConfig, c.QuenchInterval)
	case c.EpochWindow > 1<<31-1:
		return fmt.Errorf("%w: EpochWindow: %d is above 2^31-1", ErrConfig, c.EpochWindow)
	case c.Silence < 0:
		return fmt.Errorf("%w: Silence: %v is below zero", ErrConfig, c.Silence)
	case c.Uplinks < 0:
		return fmt.Errorf("%w: Uplinks: %d is below zero", ErrConfig, c.Uplinks)
	case c.Whole < 0:
		return fmt.Errorf("%w: Whole: %d bytes is below zero", ErrConfig, c.Whole)
	case c.Slack < 0 || c.Slack > 1<<40:
		return fmt.Errorf("%w: Slack: %d bytes is not within 0 and 2^40", ErrConfig, c.Slack)
	case c.Calm < 0:
		return fmt.Errorf("%w: Calm: %v is below zero", ErrConfig, c.Calm)
	case c.ProbeEvery < 0 || c.ProbeEvery > 1000*fabric.Second:
		return fmt.Errorf("%w: ProbeEvery: %v is not within 0 and 1000s", ErrConfig, c.ProbeEvery)
	}
	if err := c.Slow.validate(); err != nil {
		return err
	}
	return c.Losses.validate()
}

func (c Config) withDefaults() Config {
	setZero(&c.FailedPathMemory, DefaultFailedPathMemory)
	setZero(&c.StartJitter, DefaultStartJitter)
	setZero(&c.TimeoutGrace, DefaultTimeoutGrace)
	setZero(&c.QuenchBurst, DefaultQuenchBurst)
	setZero(&c.QuenchInterval, DefaultQuenchInterval)
	setZero(&c.EpochWindow, DefaultEpochWindow)
	setZero(&c.Calm, DefaultCalm)
	setZero(&c.ProbeEvery, DefaultProbeEvery)
	setZero(&c.Silence, DefaultSilence)
	c.Losses = c.Losses.withDefaults()
	c.Slow = c.Slow.withDefaults(c.Fabric)
	return c
}

func setZero[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}
