package rollout

import (
	"errors"
	"fmt"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/damping"
	"github.com/ethereal-fabric/ethereal/controller/drains"
	"github.com/ethereal-fabric/ethereal/controller/suspicion"
	"github.com/ethereal-fabric/ethereal/fabric"
)

// ErrConfig is wrapped by the errors of [New].
var ErrConfig = errors.New("rollout: bad config")

// Defaults of the controller's process.
const (
	DefaultStartWait    = 5 * fabric.Second
	DefaultStageTimeout = fabric.Second
	DefaultTablesWait   = 15 * fabric.Second
)

// Config sets up a [Core]. There are no defaults: the comment of each time says what 0 means.
type Config struct {
	Core controller.Config
	// Damping sets the limits above which flapping ports are not believed.
	Damping damping.Config
	// Suspicion configures how the agents' reports of time-outs are combined; its Fabric is Core's. Nil: they are not.
	Suspicion *suspicion.Config

	// StartWait is the longest wait at the start for the states of all ports; before, nothing is written or sent. 0: no
	// limit.
	StartWait fabric.Time
	// ReportsNoPorts reports whether a switch never reports its ports' states, so that the start does not wait for it.
	// Nil: none is.
	ReportsNoPorts func(fabric.NodeID) bool
	// Peers makes the start also wait for the other controllers' drains.
	Peers bool
	// StageTimeout bounds the wait for the acknowledgements of one stage of a change. 0: no limit.
	StageTimeout fabric.Time
	// TablesWait is the time for which a port that comes back is not believed while a switch at its link does not
	// have its tables. An unreachable switch may forward all the same. 0: the port is believed at once.
	TablesWait fabric.Time
	// StoreMarks stores which links are drained before it takes effect; a drain that cannot be stored is not carried
	// out. It may be called again with the previous records, to undo. Nil: nothing is stored.
	StoreMarks func([]drains.Mark) error
	// Audit is the interval at which a switch's tables are read and compared without a reason. 0: never.
	Audit fabric.Time
	// ReadableEntries returns the part of its table entries that can be read from a switch of its kind. Nil: all.
	ReadableEntries func(fabric.NodeID, []controller.Entry) []controller.Entry
	// NotifyPorts reports whether the controller has to notify a switch's data plane of its ports. Nil: for no
	// switch.
	NotifyPorts func(fabric.NodeID) bool
	// RestoredAtOnce notifies agents of a repaired link before the switches have its tables. The package comment says
	// why this order is not the default.
	RestoredAtOnce bool
}

// Validate returns the first error in c.
func (c Config) Validate() error {
	if err := c.Core.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	for _, t := range []struct {
		name string
		v    fabric.Time
	}{{"StartWait", c.StartWait}, {"StageTimeout", c.StageTimeout}, {"TablesWait", c.TablesWait}, {"Audit", c.Audit}} {
		if t.v < 0 {
			return fmt.Errorf("%w: %s: %v is below 0", ErrConfig, t.name, t.v)
		}
	}
	return nil
}
