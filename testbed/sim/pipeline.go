package sim

import "github.com/ethereal-fabric/ethereal/fabric"

// Handle names a packet inside a [Pipeline], between ingress and egress.
type Handle uint32

// Arrival is a packet at a switch's port.
type Arrival struct {
	Now    fabric.Time
	Port   uint32
	Header []byte // real bytes; valid during the call
	Length int    // on the wire, virtual payload included, without Config.Overhead
}

// Copy is what a pipeline makes of a packet: most arrivals give one, a dropped
// one none, a cloned or replicated one several.
type Copy struct {
	Handle   Handle
	Port     uint32 // egress port
	Length   int
	Priority uint8
	Resume   bool // recirculated: goes to Resume instead of a queue
}

// QueueState is what a packet met in its queue. Depths are of the port's data
// class, in cells, rounded up, the packet itself not counted.
type QueueState struct {
	EnqTime, DeqTime   fabric.Time
	EnqDepth, DeqDepth uint32
}

// Departure is a packet as it leaves a switch.
type Departure struct {
	Header []byte // real bytes; valid until the next call on the pipeline
	Length int    // with virtual payload
}

// Pipeline is a switch's packet processing, in the halves a traffic manager
// needs. Each handle is given back exactly once, through Resume, Egress or
// Free. Calls are never concurrent.
type Pipeline interface {
	// Ingress appends to out the copies of an arriving packet and returns it.
	Ingress(a Arrival, out []Copy) []Copy
	// Resume is Ingress for a copy that was recirculated.
	Resume(h Handle, now fabric.Time, out []Copy) []Copy
	// Egress finishes a packet that left its queue. ok is false when the
	// program dropped it. New copies are appended to out.
	Egress(h Handle, q QueueState, out []Copy) (d Departure, more []Copy, ok bool)
	// Free gives back a packet that the traffic manager dropped.
	Free(h Handle)
}

// Held is what an [InPlace] pipeline notes of a packet between its halves.
type Held [3]uint64

// InPlace is a [Pipeline] that can take most packets through without a handle:
// one packet in, one out, its header as long as before, changed where it lies.
type InPlace interface {
	Pipeline
	// IngressInPlace is Ingress for such a packet. It may read 8 bytes of
	// capacity behind a.Header. ok is false, and nothing has happened, when the
	// packet must go through Ingress. The copy has no handle; drop is set when
	// the program dropped the packet.
	IngressInPlace(a Arrival, held *Held) (c Copy, drop, ok bool)
	// KeepInPlace says that the packet that IngressInPlace has just taken will
	// come to EgressInPlace: it may write to the header now.
	KeepInPlace(header []byte)
	// EgressInPlace is Egress for a packet that IngressInPlace took; length is
	// the packet's on the wire. ok is false when the program dropped it. A d
	// without a Header means that it was changed where it lies; otherwise d and
	// the copies are as those of Egress.
	EgressInPlace(header []byte, length int, held *Held, q QueueState, out []Copy) (d Departure, more []Copy, ok bool)
	// FreeInPlace says that the traffic manager dropped the packet that
	// IngressInPlace has just taken.
	FreeInPlace()
}
