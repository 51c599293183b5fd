package scenario

import "github.com/ethereal-fabric/ethereal/fabric"

// Intervention is something done to the control plane during a run, where
// [LinkEvent] is something that happens to a link.
type Intervention struct {
	At   fabric.Time
	Do   Deed
	Node fabric.NodeID // of AgentDown and AgentUp: the host
	Link fabric.LinkID // of Drain and Undrain
}

// Deed is what an [Intervention] does.
type Deed string

// Deeds.
const (
	// ControllerDown ends the controller: what it was about to write or to say
	// is not written or said. The switches go on as they are.
	ControllerDown Deed = "controller-down"
	// ControllerUp starts a controller that knows nothing: it hears the ports'
	// states, reads the tables back, writes what differs, and tells the agents.
	ControllerUp Deed = "controller-up"
	// AgentDown ends the agent of a host: its queue pairs go on along the paths
	// they have, whatever is said of those.
	AgentDown Deed = "agent-down"
	// AgentUp starts it again. It hears of the links, and then goes on.
	AgentUp Deed = "agent-up"
	// Drain takes a link out of use: traffic leaves it while it still carries
	// packets. Undrain puts it back.
	Drain   Deed = "drain"
	Undrain Deed = "undrain"
)

// Happening is something that a run is asked to tell while it goes.
type Happening struct {
	At    fabric.Time
	Kind  string // a deed, sync, gnmi, write, flip, or a kind of a result's timeline
	Where string // node or link
	Text  string
}
