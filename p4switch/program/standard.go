package program

// StdSlot is a field of standard metadata. One that the program has not got
// is a slot that nobody reads.
type StdSlot struct {
	Slot uint32
	Has  bool
	Mask uint64
}

// Set writes the field, cut to its width.
func (r StdSlot) Set(v []uint64, x uint64) { v[r.Slot] = x & r.Mask }

// Get reads the field, 0 where the program has not got it.
func (r StdSlot) Get(v []uint64) uint64 {
	if !r.Has {
		return 0
	}
	return v[r.Slot]
}

// StandardSlots is standardFields as the data plane uses it.
type StandardSlots struct {
	IngressPort, PacketLength, InstanceType, EgressSpec, EgressPort StdSlot
	IngressTS, EgressTS, Multicast, ReplicaID, Priority             StdSlot
	EnqTS, EnqDepth, DeqDelta, DeqDepth, QueueID                    StdSlot
	ParserError, ChecksumError                                      StdSlot
}

func (f *standardFields) slots(c *compiler) StandardSlots {
	spare := c.alloc(1)
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
