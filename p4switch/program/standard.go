package program

// StdSlot is a field of v1model's standard_metadata. A field that the program lacks is a slot that nothing reads.
type StdSlot struct {
	Slot uint32
	Has  bool
	Mask uint64
}

// Set writes the field in a packet's slots, truncated to the field's width.
func (r StdSlot) Set(v []uint64, x uint64) { v[r.Slot] = x & r.Mask }

// Get reads the field in a packet's slots; 0 if the program lacks it.
func (r StdSlot) Get(v []uint64) uint64 {
	if !r.Has {
		return 0
	}
	return v[r.Slot]
}

// StandardSlots is the slots of the fields of v1model's standard_metadata.
type StandardSlots struct {
	IngressPort, PacketLength, InstanceType, EgressSpec, EgressPort StdSlot
	IngressTS, EgressTS, Multicast, ReplicaID, Priority             StdSlot
	EnqTS, EnqDepth, DeqDelta, DeqDepth, QueueID                    StdSlot
	ParserError, ChecksumError                                      StdSlot
}

func (f *standardFields) slots(c *compiler) StandardSlots {
	spare := c.allocSlots(1)
	s := func(r Ref) StdSlot {
		if r.h == nil {
			return StdSlot{Slot: spare}
		}
		return StdSlot{r.Slot(), true, MaskOf(r.Field.Width)}
	}
	return StandardSlots{
		s(f.ingressPort), s(f.packetLength), s(f.instanceType), s(f.egressSpec), s(f.egressPort),
		s(f.ingressTS), s(f.egressTS), s(f.mcast), s(f.rid), s(f.priority),
		s(f.enqTS), s(f.enqDepth), s(f.deqDelta), s(f.deqDepth), s(f.qid),
		s(f.parserError), s(f.checksumError),
	}
}
