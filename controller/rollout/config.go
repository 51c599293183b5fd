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

// Config sets up a [Core]. The comment of a time says what 0 means; there are no defaults.
type Config struct {
	Core controller.Config
	// Damping sets the limits above which flapping ports are not believed.
	Damping damping.Config
	// Suspicion combines the agents' time-outs; its Fabric is Core's. Nil: they are not combined.
	Suspicion *suspicion.Config

	// StartWait bounds the wait for the states of all ports, before which nothing is written or sent. 0: no limit.
	StartWait fabric.Time
	// Mute reports whether a switch never reports its ports' states: the start does not wait for it. Nil: no switch
	// is mute.
	Mute func(fabric.NodeID) bool
	// Peers makes the start also wait for the other controllers' drains.
	Peers bool
	// StageTimeout bounds the wait for the acknowledgements of one stage of a change. 0: no limit.
	StageTimeout fabric.Time
	// TablesWait is the time for which a port that comes back is not believed while a switch at its link does not
	// have its tables. An unreachable switch may forward all the same. 0: the port is believed at once.
	TablesWait fabric.Time
	// Keep stores the drains before they are carried out; drains that it cannot store are not carried out. It may
	// receive the previous marks again, to revert marks that it may not have stored. Nil: nothing is stored.
	Keep func([]drains.Mark) error
	// Audit is the interval at which a switch's tables are read back without a reason. 0: never.
	Audit fabric.Time
	// Keeps returns the part of its tables that is read back from a switch of its kind. Nil: all of them.
	Keeps func(fabric.NodeID, []controller.Entry) []controller.Entry
	// NotifyPorts reports whether the controller has to notify a switch's data plane of its ports. Nil: for no
	// switch.
	NotifyPorts func(fabric.NodeID) bool
	// RestoredAtOnce notifies agents of a repaired link before the switches have its tables: the order that was
	// measured and not chosen; see the package comment.
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
