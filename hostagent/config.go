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
	DefaultFailedPathMemory = 100 * fabric.Millisecond // [ref]
	DefaultStartJitter      = 50 * fabric.Nanosecond   // [ref]
	DefaultTimeoutGrace     = 20 * fabric.Microsecond
	DefaultQuenchBurst      = 128
	DefaultQuenchInterval   = 100 * fabric.Microsecond
	DefaultEpochWindow      = 1 << 16
	DefaultCalm             = fabric.Millisecond
	DefaultProbeEvery       = 250 * fabric.Microsecond
	DefaultSilence          = 5 * fabric.Second
	DefaultPacket           = 9216
)

// Config sets up a [Core]. A zero duration or count means its default.
type Config struct {
	Fabric *fabric.Fabric `json:"-"`
	Host   fabric.NodeID
	Seed   uint64 `json:",omitzero"` // of a run; the host's rank is mixed in

	// FailedPathMemory is the time for which a time-out or a quench is believed.
	FailedPathMemory fabric.Time `json:",omitzero"`
	// StartJitter is the span over which the starts of labelled pieces are randomly spread. Negative: none.
	StartJitter fabric.Time `json:",omitzero"`
	// TimeoutGrace is the time after a piece's flip during which its time-outs do not count against the new path,
	// because the timer may have been started on the old one. Keep it below the retransmission timeout. Negative:
	// none.
	TimeoutGrace fabric.Time `json:",omitzero"`

	// QuenchBurst and QuenchInterval limit the rate of quenches that can change anything: QuenchBurst at once, one
	// more per QuenchInterval.
	QuenchBurst    int         `json:",omitzero"`
	QuenchInterval fabric.Time `json:",omitzero"`
	// EpochWindow is the largest distance of a quench's epoch ahead of the last one believed for its port.
	EpochWindow uint32 `json:",omitzero"`
	// Silence is the time after its last update or heartbeat during which a controller still counts as connected.
	// While one is connected, quenches that it does not confirm are limited. See the package comment, Trust.
	Silence fabric.Time `json:",omitzero"`

	// Losses is the test that decides when a path is left because of its losses ([Core.Lost]).
	Losses LossTest `json:",omitzero"`
	// Calm is the time after a switch's mark during which congestion can cause a time-out: the time in which a full
	// buffer drains.
	Calm fabric.Time `json:",omitzero"`
	// ProbeEvery is the time between two rounds of probes of a path that was left because of losses. It doubles
	// with every round that loses any.
	ProbeEvery fabric.Time `json:",omitzero"`

	// Asks says that the driver carries out [Ready].Ask and reports answers and overdue answers. Otherwise a time-out
	// alone decides about a path.
	Asks bool `json:",omitzero"`
	// AskWait is the shortest time after which a path probe counts as unanswered. It is for hosts and switches whose
	// packets wait longest for a processor.
	AskWait fabric.Time `json:",omitzero"`
	// Packet is the number of bytes of a full packet with framing. 0: that of a payload of 9000 bytes.
	Packet int64 `json:",omitzero"`

	// Slow is the test that decides when a path counts as slow.
	Slow SlowTest `json:",omitzero"`

	// Whole is the largest size in bytes of a flow that is not cut; it takes the good path with the fewest
	// outstanding bytes: a packet's worth cannot be split evenly. 0: all flows are cut.
	Whole int64 `json:",omitzero"`

	// Fewest cuts flows of equal size as those of unequal sizes: into the fewest pieces, which need not be equal.
	// See [SplitFewest].
	Fewest bool `json:",omitzero"`
	// Slack is the number of bytes of a batch to a ToR that a path may carry above its share, so that fewer flows
	// are cut. It does not apply to equal sizes, which Theorem 1 cuts. 0: the paths are even.
	Slack int64 `json:",omitzero"`

	// Uplinks is the number of uplinks per ToR that this host uses. The hosts of a rack use equal shares in turn,
	// so that together they use all uplinks alike. It is for fabrics with more paths than a NIC has queue pairs
	// for. 0: all.
	Uplinks int `json:",omitzero"`

	// Unshuffled keeps ToRs, flows and paths in the given order. It is for tests: all hosts then start on the same
	// path.
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
	case c.Whole < 0:
		return fmt.Errorf("%w: Whole: %d bytes is below zero", ErrConfig, c.Whole)
	case c.AskWait < 0:
		return fmt.Errorf("%w: AskWait: %v is below zero", ErrConfig, c.AskWait)
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
	setZero(&c.Packet, DefaultPacket)
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
