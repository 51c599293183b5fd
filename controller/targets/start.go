package targets

// Starter is a kind whose switches the live world starts, one process each.
type Starter interface {
	Kind
	// Start describes the kind's flag, and what its switches need around them.
	Start() Start
	// Command returns the command to run.
	Command(Bench) Command
}

// Start is what a world of processes has to know of a kind before it makes its links.
type Start struct {
	// Value and Help describe the flag that selects the kind: the flag's name is the kind's. Empty: no flag does.
	Value, Help string
	// Binary says that Value names the program to run. Otherwise it names the files of the switches' P4 program.
	Binary bool
	// Shadows says that the switch's ports are macvlans over the links' ends, and that it learns of them by a veth
	// pair.
	Shadows bool
}

// Bench describes a switch to start.
type Bench struct {
	Binary          string // the value of the kind's flag
	Datapath        string // of --datapath; empty: the kind's default
	Number          int    // of the switch: the NodeID
	DeviceID        uint64
	P4Runtime, GNMI string      // addresses at which to serve
	Ports           []BenchPort // 1, 2, ...
	Events          [2]string   // with Shadows: the ends of the veth pair, at the reporter's side and at the switch's
	QueueDepth      int         // in packets; 0: the switch's default
	CPUPort         uint32      // the controller's port number
	EventPort       uint32      // of port events
}

// BenchPort is a port of a [Bench].
type BenchPort struct {
	Interface string // the link's end
	Shadow    string // with Shadows: the macvlan over it
}

// Command is the command to run for a switch.
type Command struct {
	Args []string // of `ethereal`, or of the Bench's Binary
	// Beside are arguments of an `ethereal` to run beside it, started when its interfaces exist; nil: none.
	Beside []string
}
