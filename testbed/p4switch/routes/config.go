package routes

// Protocol is the number that the routes are known by: see `ip route show proto 231`.
const Protocol = 231

// Config sets up a [Mirror].
type Config struct {
	Ports []Port
}

// Port is a port of the switch.
type Port struct {
	Number    uint32
	Interface string
	Index     int     // of the interface
	Neighbour [6]byte // MAC address of the switch there; zero: it is none, or not known
}
