package hostagent

import (
	"errors"
	"fmt"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// ErrConfig is wrapped by every error of [Config.Validate].
var ErrConfig = errors.New("hostagent: bad config")

// Defaults of a [Config]; those marked [ref] are the reference evaluation's.
const (
	DefaultFailedPathMemory = 100 * fabric.Millisecond // as in the paper's reference simulation
	DefaultStartJitter      = 50 * fabric.Nanosecond   // as in the paper's reference simulation
	DefaultTimeoutGrace     = 20 * fabric.Microsecond
	DefaultQuenchBurst      = 128
	DefaultQuenchInterval   = 100 * fabric.Microsecond
	DefaultEpochWindow      = 1 << 16
	DefaultCalm             = fabric.Millisecond
	DefaultProbeEvery       = 250 * fabric.Microsecond
	DefaultSilence          = 5 * fabric.Second
	DefaultPacketBytes      = 9216
	DefaultMinimal          = 8
	MaxMinimal              = 1 << 10
)

// Config sets up a [Core]. A zero duration or count means its default.
type Config struct {
	Fabric *fabric.Fabric `json:"-"`
	Host   fabric.NodeID
	Seed   uint64 `json:",omitzero"` // seed of random choices; the host's rank is mixed in

	// FailedPathMemory is how long a path counts as dead after a time-out or a source quench.
	FailedPathMemory fabric.Time `json:",omitzero"`
	// StartJitter is the interval over which the starts of pieces with labels are spread at random. Negative: none.
	StartJitter fabric.Time `json:",omitzero"`
	// TimeoutGrace is how long after a piece's move its time-outs do not count against the new path, because the timer
	// may have been started on the old one. It should be below the retransmission time-out. Negative: none.
	TimeoutGrace fabric.Time `json:",omitzero"`

	// QuenchBurst and QuenchInterval limit the rate of accepted source quenches: QuenchBurst at once, and one more per
	// QuenchInterval.
	QuenchBurst    int         `json:",omitzero"`
	QuenchInterval fabric.Time `json:",omitzero"`
	// EpochWindow is the largest accepted step between the epochs (event counts) of two quenches about one port.
	EpochWindow uint32 `json:",omitzero"`
	// Silence is how long after its last update or heartbeat a controller counts as connected. While one is connected,
	// quenches that it does not confirm are limited: see the package comment, Trust.
	Silence fabric.Time `json:",omitzero"`

	// Losses is the statistical test by which a path is left because it loses packets ([Core.Lost]).
	Losses LossTest `json:",omitzero"`
	// Calm is how long after an ECN mark a time-out may be due to congestion: the time in which a full buffer drains.
	Calm fabric.Time `json:",omitzero"`
	// ProbeEvery is the time between two rounds of probes on a path that was left because of losses. It doubles with
	// every round in which a probe is lost.
	ProbeEvery fabric.Time `json:",omitzero"`

	// Asks says that the caller sends the path probes of [Ready].Ask and reports their answers, and calls
	// [Core.Overdue]. Otherwise a path is left at the first time-out.
	Asks bool `json:",omitzero"`
	// AskWait is the shortest time after which a path counts as unanswering. It is for hosts and switches whose packets
	// wait longest for a processor; where answers take long, the time grows. 0: probes' times alone decide.
	AskWait fabric.Time `json:",omitzero"`
	// Rate is the rate at which the host sends if that is less than its link's. Path probes take a small part of it.
	Rate fabric.Rate `json:",omitzero"`
	// Packet is the number of bytes of a full packet on the wire. 0: that of a payload of 9000 bytes.
	Packet int64 `json:",omitzero"`

	// Slow is the test by which a path counts as slower than others.
	Slow SlowTest `json:",omitzero"`

	// Whole is the largest size in bytes of a flow that is never cut. Such a flow takes the usable path with the fewest
	// outstanding bytes. 0: all flows may be cut.
	Whole int64 `json:",omitzero"`

	// Fewest cuts flows of equal size into the fewest pieces, which need not be equal, as it does flows of unequal
	// sizes. See [SplitFewest].
	Fewest bool `json:",omitzero"`
	// Slack is the number of bytes of a batch to one ToR that a path may carry above its equal share, so that fewer
	// flows are cut. It does not apply to flows of equal size, which [Split] cuts by Ethereal's Theorem 1. 0: none.
	Slack int64 `json:",omitzero"`

	// Uplinks is the number of uplinks per ToR that this host uses. The hosts of a rack use different ones, so that
	// together they use all uplinks equally. It is for fabrics with more paths than an RNIC has queue pairs for. 0:
	// all.
	Uplinks int `json:",omitzero"`

	// Minimal is the number of bytes on the minimal path of a dragonfly for each byte on another path. 0:
	// DefaultMinimal.
	Minimal int `json:",omitzero"`

	// Unshuffled, for tests, processes ToRs, flows and paths in order instead of at random; all hosts then start on the
	// same path.
	Unshuffled bool `json:",omitzero"`
}

// Validate returns the first error in c.
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
	case c.Uplinks > 0 && !c.Fabric.Clos():
		return fmt.Errorf("%w: Uplinks: a %s's hosts use all paths; leave it out", ErrConfig, c.Fabric.Spec().Kind)
	case c.Minimal < 0 || c.Minimal > MaxMinimal:
		return fmt.Errorf("%w: Minimal: %d is not within 0 and %d", ErrConfig, c.Minimal, MaxMinimal)
	case c.Whole < 0:
		return fmt.Errorf("%w: Whole: %d bytes is below zero", ErrConfig, c.Whole)
	case c.AskWait < 0:
		return fmt.Errorf("%w: AskWait: %v is below zero", ErrConfig, c.AskWait)
	case c.Rate < 0:
		return fmt.Errorf("%w: Rate: %v is below zero", ErrConfig, c.Rate)
	case c.Packet < 0 || c.Packet > 1<<20:
		return fmt.Errorf("%w: Packet: %d bytes is not within 0 and 2^20", ErrConfig, c.Packet)
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
	setZero(&c.Packet, DefaultPacketBytes)
	setZero(&c.Minimal, DefaultMinimal)
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
