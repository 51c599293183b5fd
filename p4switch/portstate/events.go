package portstate

// EventPackets describes the packets by which a switch notifies its P4 program that a port came up or went down, for
// programs that keep the state of ports in the data plane.
type EventPackets struct {
	Port  uint32 // the ingress port at which they enter the program
	Ports uint32 // only ports with lower numbers have such packets

	// Append appends the packet about a port to b and returns the result. The epoch is the number of the port's
	// changes; a repeated packet has the same.
	Append func(b []byte, port uint16, up bool, epoch uint32) []byte

	// Register names a register that only programs that process such packets have. Empty: every program gets them.
	Register string
	// Tables are the tables that the program looks up for such a packet. When they change, the last packets are
	// repeated.
	Tables []string
}
