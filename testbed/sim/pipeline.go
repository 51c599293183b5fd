package sim

import "github.com/ethereal-fabric/ethereal/fabric"

// Handle identifies a packet between the ingress and egress half of a [Pipeline].
type Handle uint32

// Arrival is a packet that arrives at a switch's port.
type Arrival struct {
	Now    fabric.Time
	Port   uint32
	Header []byte // header bytes; valid during the call
	Length int    // of the packet with payload, without Config.Overhead
}

// Copy is a packet after the ingress half of a [Pipeline]. Most packets become one copy, a dropped one none, a cloned
// or replicated one several.
type Copy struct {
	Handle   Handle
	Port     uint32 // egress port
	Length   int
	Priority uint8
	Resume   bool // recirculated: pass it to Resume instead of a queue
}

// QueueState is a packet's time in its queue, and the depths of the port's data queue before it joined and after it
// left, in cells rounded up, without the packet itself.
type QueueState struct {
	EnqTime, DeqTime   fabric.Time
	EnqDepth, DeqDepth uint32
}

// Departure is a packet as it leaves a switch.
type Departure struct {
	Header []byte // header bytes; valid until the next call on the pipeline
	Length int    // of the packet with payload
}

// Pipeline is a switch's packet processing, in two halves with the queue between them. Each handle is returned exactly
// once, by Resume, Egress or Free. Calls are never concurrent.
type Pipeline interface {
	// Ingress appends to out the copies of an arriving packet and returns it.
	Ingress(a Arrival, out []Copy) []Copy
	// Resume is Ingress for a copy that was recirculated.
	Resume(h Handle, now fabric.Time, out []Copy) []Copy
	// Egress finishes a packet that left its queue. ok is false if the program dropped it. New copies are appended to
	// out.
	Egress(h Handle, q QueueState, out []Copy) (d Departure, more []Copy, ok bool)
	// Trim says that the traffic manager cut a packet to its header.
	Trim(h Handle)
	// Free returns a packet that the traffic manager dropped.
	Free(h Handle)
}

// HeldPacket is the state of a packet between the two halves of an [InPlace] pipeline.
type HeldPacket [3]uint64

// InPlace is a [Pipeline] that can process most packets without handles and copies: one packet in, one out, with
// headers of the same length, changed in place.
type InPlace interface {
	Pipeline
	// IngressInPlace is Ingress for a packet that can be processed in place. It may read 8 bytes of capacity behind
	// a.Header. If ok is false, nothing has happened, and the packet must go through Ingress. The copy has no handle;
	// drop says that the program dropped the packet.
	IngressInPlace(a Arrival, held *HeldPacket) (c Copy, drop, ok bool)
	// KeepInPlace says that the packet of the last IngressInPlace was queued and will go to EgressInPlace: the pipeline
	// may write to the header now.
	KeepInPlace(header []byte)
	// EgressInPlace is Egress for a packet of IngressInPlace; length is that of the whole packet. ok is false if the
	// program dropped it. If d has no Header, the packet was changed in place; otherwise d and the copies are as those
	// of Egress.
	EgressInPlace(header []byte, length int, held *HeldPacket, q QueueState, out []Copy) (d Departure, more []Copy, ok bool)
	// FreeInPlace says that the traffic manager dropped the packet of the last IngressInPlace.
	FreeInPlace()
}
