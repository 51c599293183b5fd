package targets

// Starter is a kind of switch that the live world can start as a process.
type Starter interface {
	Kind
	// Start returns the command-line flag that selects the kind, and what the live world must prepare for its switches.
	Start() Start
	// Command returns the command to run.
	Command(LaunchParams) Command
}

// Start is the command-line flag of a kind of switch, and what the live world must prepare before it starts such
// switches.
type Start struct {
	// Value and Help describe the command-line flag that selects the kind. The flag has the kind's name. Empty: there
	// is no flag.
	Value, Help string
	// Binary says that Value names the program to run. Otherwise it names the files of the switches' P4 program.
	Binary bool
	// Shadows says that the switch's ports are macvlan interfaces over the links' ends, and that the switch gets
	// packets about port changes by a veth pair.
	Shadows bool
}

// LaunchParams are the addresses, ports and options with which a switch process is started.
type LaunchParams struct {
	Binary          string // program or files: the value of the kind's flag
	Datapath        string // of --datapath; empty: the kind's default
	Number          int    // the switch's NodeID
	DeviceID        uint64
	P4Runtime, GNMI string       // addresses at which the switch is to serve
	Ports           []LaunchPort // the switch's ports, in the order of port numbers from 1
	Events          [2]string    // with Shadows: the ends of the veth pair, at the reporter's side and at the switch's
	QueueDepth      int          // in packets; 0: the switch's default
	CPUPort         uint32       // port number of packet-out and packet-in
	EventPort       uint32       // ingress port of packets about port changes
}

// LaunchPort is a port of [LaunchParams].
type LaunchPort struct {
	Interface string // network interface at the link's end
	Shadow    string // with Shadows: the macvlan over it
}

// Command is the command to run for a switch.
type Command struct {
	Args []string // of `ethereal`, or of the Bench's Binary
	// Beside are arguments of an `ethereal` to run beside it, started when its interfaces exist; nil: none.
	Beside []string
}
