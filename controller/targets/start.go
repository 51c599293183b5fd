package targets

// Starter is a kind of which the live world starts switches, a process for each.
type Starter interface {
	Kind
	// Start says how people ask for such switches, and what they need around them.
	Start() Start
	// Command says what to run.
	Command(Bench) Command
}

// Start is what a world of processes has to know of a kind before it makes its links.
type Start struct {
	// Datapath is what --datapath asks for the kind by. Empty: a flag by the kind's name does, whose value is Value.
	Datapath, Value, Help string
	// Binary is whether Value names the program to run. Otherwise it names the files of the switches' P4 program.
	Binary bool
	// Namespace is whether each switch needs a network namespace to itself.
	Namespace bool
	// Shadows is whether the switch has macvlans over the links' ends for ports, and learns of them by a veth pair.
	Shadows bool
}

// Bench is a switch that is to be started.
type Bench struct {
	Binary          string // the value of the kind's flag
	Datapath        string // of --datapath; empty: the kind's own
	Number          int    // of the switch: the NodeID
	DeviceID        uint64
	P4Runtime, GNMI string      // addresses to serve at
	Ports           []BenchPort // 1, 2, ...
	Events          [2]string   // of Shadows: the ends of the veth pair, at the reporter's side and at the switch's
	QueueDepth      int         // in packets; 0: its own
	CPUPort         uint32      // the controller's port number
	EventPort       uint32      // that of port events
}

// BenchPort is a port of a Bench.
type BenchPort struct {
	Interface string // the link's end
	Shadow    string // of Shadows: the macvlan over it
	Neighbour [6]byte
}

// Command is what to run for a switch.
type Command struct {
	Args []string // of `ethereal`, or of the Bench's Binary
	// Beside are of an `ethereal` to run beside it, from when its interfaces are made; nil: none.
	Beside []string
}
