package interp

// DropReason is why a packet, or a requested copy of it, was dropped.
type DropReason uint8

// The reasons.
const (
	DropIngress        DropReason = iota // egress_spec was the drop port after ingress
	DropEgress                           // egress_spec was the drop port after egress
	DropParserLoop                       // the parser visited too many states
	DropPasses                           // resubmitted or recirculated more often than Config.MaxPasses
	DropNoGroup                          // multicast to a group that does not exist or is empty
	DropNoSession                        // clone to a session that does not exist
	DropPriority                         // the queue number was not below Config.QueuesPerPort
	DropAssert                           // assert or assume failed
	DropActionLoop                       // an action jumped back more often than Config.MaxLoops
	DropTooLong                          // headers grew beyond the largest size of a packet
	DropTrafficManager                   // the caller's traffic manager dropped it: see [Switch.Free]
	numDropReasons
)

var dropNames = [numDropReasons]string{
	"ingress", "egress", "parser loop", "too many passes", "no multicast group", "no clone session",
	"priority out of range", "assert", "action loop", "too long", "traffic manager",
}

// String names the reason.
func (r DropReason) String() string {
	if r < numDropReasons {
		return dropNames[r]
	}
	return "unknown"
}

// DropCounts holds a count per [DropReason].
type DropCounts [numDropReasons]uint64

// Total sums the counts.
func (d *DropCounts) Total() uint64 {
	var n uint64
	for _, c := range d {
		n += c
	}
	return n
}
