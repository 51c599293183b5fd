package portstate

// EventPackets are the packets by which a switch notifies its P4 program that a port came up or went down, for
// programs that keep the liveness of ports in the data plane.
type EventPackets struct {
	Port  uint32 // the ingress port at which they enter the program
	Ports uint32 // only ports with numbers below this one have any

	// Append appends the packet about a port to b and returns the result. The epoch counts the port's changes; a
	// repeated packet has the same.
	Append func(b []byte, port uint16, up bool, epoch uint32) []byte

	// Register names a register that tells programs that want such packets from others. Empty: every program gets
	// them.
	Register string
	// Tables are the tables that the program consults when a packet comes: after they changed, it needs the last
	// packets again.
	Tables []string
}
