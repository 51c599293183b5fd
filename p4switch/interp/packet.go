package interp

// Input is a packet as it arrives at a port.
type Input struct {
	Port   uint32
	Data   []byte // the bytes that are there; copied
	Length int    // bytes on the wire; what exceeds len(Data) is virtual payload. Less than len(Data): len(Data)
	Now    int64  // ns since the switch started
}

// Stage says what a packet waits for.
type Stage uint8

const (
	// StageEgress means: queue the packet at its egress port, then call [Switch.Egress].
	StageEgress Stage = iota
	// StageIngress means: the packet was recirculated or resubmitted; call [Switch.Resume].
	StageIngress
)

// String names the stage.
func (s Stage) String() string {
	if s == StageIngress {
		return "ingress"
	}
	return "egress"
}

// Packet is a packet between the pipelines, with its parsed headers and
// metadata. It belongs to the switch that made it.
type Packet struct {
	EgressPort  uint32
	IngressPort uint32
	Length      int    // bytes on the wire, as packet_length will read in egress
	Tag         uint64 // the caller's: kept on the packet and by its egress clones, 0 on a new one
	Priority    uint8  // queue within the port, larger is more urgent
	Stage       Stage

	pkt
}

// Batch collects packets. The caller keeps it and passes it again: set
// Packets = Packets[:0] when they are handled.
type Batch struct {
	Packets []*Packet
}

// QueueState is what the traffic manager knows of a packet when it leaves the
// queue. DeqTime is also the time of the egress; without a queue EnqTime is
// the same and the depths are 0.
type QueueState struct {
	EnqTime, DeqTime   int64  // ns since the switch started
	EnqDepth, DeqDepth uint32 // in the traffic manager's unit; BMv2 counts packets
}

// Output is a packet as it leaves a port.
type Output struct {
	Port   uint32
	Data   []byte // deparsed headers and real payload; valid until the next call on the switch
	Length int    // bytes on the wire, with the virtual payload
}
