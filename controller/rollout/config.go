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

// Config sets up a [Core]. A time of 0 means what its comment says, not a default.
type Config struct {
	Core controller.Config
	// Damping says which ports flap too much to be believed.
	Damping damping.Config
	// Suspicion joins the agents' time-outs; its Fabric is Core's. Nil: nothing does.
	Suspicion *suspicion.Config

	// StartWait bounds the wait for the states of all ports, before which nothing is
	// written or sent. 0: no limit.
	StartWait fabric.Time
	// Mute reports whether a switch never reports its ports' states: the start does not wait
	// for it. Nil: none is.
	Mute func(fabric.NodeID) bool
	// Peers says that the start also waits for what other controllers have drained.
	Peers bool
	// StageTimeout bounds the wait for the acknowledgements of one stage of a change. 0:
	// they are waited for.
	StageTimeout fabric.Time
	// TablesWait is how long a port that comes back is not believed while a switch at its
	// link has not got its tables. One that cannot be reached may forward all the same.
	// 0: it is believed at once.
	TablesWait fabric.Time
	// Keep writes down what is drained, before it is carried out; what it cannot write
	// down is not drained. It may be given the marks from before again, to take back what
	// it is not sure to have written. Nil: nothing is written down.
	Keep func([]drains.Mark) error
	// Audit is how often the tables of a switch are read back although nothing seems
	// wrong. 0: never.
	Audit fabric.Time
	// Keeps returns what of its tables a switch is read back to hold, by its kind. Nil:
	// all of it.
	Keeps func(fabric.NodeID, []controller.Entry) []controller.Entry
	// NotifyPorts reports whether a switch's data plane has to be notified by the controller
	// what its ports do. Nil: none has.
	NotifyPorts func(fabric.NodeID) bool
	// RestoredAtOnce notifies agents of a link that is back before the switches have the
	// tables for it: the order that was measured and not chosen; see the package comment.
	RestoredAtOnce bool
}

// Validate reports the first thing wrong with c.
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
