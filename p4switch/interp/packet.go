package interp

// Input is a packet as it arrives at a port.
type Input struct {
	Port uint32
	Data []byte // the packet's first bytes; copied
	// bytes on the wire; bytes beyond len(Data) are payload without content. If less than len(Data), it is len(Data).
	Length int
	Now    int64 // ns since the switch started
}

// Stage is which processing step a packet waits for.
type Stage uint8

const (
	// StageEgress is to queue the packet at its egress port, and then to call [Switch.Egress].
	StageEgress Stage = iota
	// StageIngress is to call [Switch.Resume], since the packet was recirculated or resubmitted.
	StageIngress
)

// String names the stage.
func (s Stage) String() string {
	if s == StageIngress {
		return "ingress"
	}
	return "egress"
}

// Packet is a packet between ingress and egress pipeline, with its parsed headers and metadata. It belongs to the
// switch that made it.
type Packet struct {
	EgressPort  uint32
	IngressPort uint32
	Length      int    // bytes on the wire: packet_length in egress
	Tag         uint64 // a number of the caller's, which the packet and its egress clones keep; 0 on a new packet
	Priority    uint8  // queue within the port, larger is more urgent
	Stage       Stage

	packetState
}

// Batch collects packets. The caller reuses it: set Packets = Packets[:0] once they are processed.
type Batch struct {
	Packets []*Packet
}

// QueueState is a packet's time in the queue and the queue's depths, which the P4 program can read. DeqTime is also the
// time of egress. Without a queue EnqTime equals DeqTime and the depths are 0.
type QueueState struct {
	EnqTime, DeqTime   int64  // ns since the switch started
	EnqDepth, DeqDepth uint32 // after the packet left; in the traffic manager's unit (BMv2: packets)
}

// Output is a packet as it leaves a port.
type Output struct {
	Port   uint32
	Data   []byte // deparsed headers and the bytes of payload that were given; valid until the next call on the switch
	Length int    // bytes on the wire, with payload without content
}
