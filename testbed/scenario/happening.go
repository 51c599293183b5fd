package scenario

import "github.com/ethereal-fabric/ethereal/fabric"

// Happening is something that a run reports during the run.
type Happening struct {
	At    fabric.Time
	Kind  string // an action, sync, gnmi, write, flip, or a kind of a result's timeline
	Where string // node or link
	Text  string
}
