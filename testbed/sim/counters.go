package sim

import "github.com/ethereal-fabric/ethereal/fabric"

// DropReason is why a switch dropped a packet.
type DropReason uint8

// The reasons.
const (
	DropBuffer        DropReason = iota // its queue was above the threshold, or the buffer was full
	DropPipeline                        // the program dropped it, or consumed it (port-event packets)
	DropNoPort                          // sent to a port that does not exist
	DropRecirculation                   // it was cloned or recirculated too often
	DropOversize                        // it left the egress pipeline with more than MaxHeader bytes of headers
	DropWatchdog                        // the port had been paused for too long: see PFC.Watchdog
	numDropReasons
)

var dropNames = [numDropReasons]string{"buffer", "pipeline", "no port", "recirculation", "oversize", "watchdog"}

// String names the reason.
func (r DropReason) String() string {
	if r < numDropReasons {
		return dropNames[r]
	}
	return "unknown"
}

// LinkCounters counts the packets of one direction of a link, and of the egress port that feeds it. A packet counts as
// sent when its first bit leaves the port, even if it is lost later.
type LinkCounters struct {
	DataPackets    int64 // data packets (class 0)
	DataPayload    int64 // payload bytes in data packets
	ControlPackets int64 // packets of the other classes
	Bytes          int64 // of all packets, headers included, without Config.Overhead
	Arrived        int64 // packets that reached the far end

	Dropped int64 // packets that the port's queues did not admit
	Trimmed int64 // packets trimmed to their headers at this port

	Lost        int64 // packets lost to a cut of this direction
	LostData    int64 // data packets lost to a cut of this direction
	LostPayload int64 // payload bytes in them
	FirstLost   fabric.Time
	LastLost    fabric.Time // time of the last loss; valid, as FirstLost, if Lost > 0

	Pauses int64       // times that the far end paused the sender
	Paused fabric.Time // total duration of the pauses that have ended

	MaxQueue  int64   // largest number of bytes of data waiting
	MeanQueue float64 // mean bytes of data waiting, over the time so far
}

// Counters returns the counters of a direction.
func (n *Network) Counters(dir LinkDir) LinkCounters {
	d := &n.dirs[dir]
	c := d.counters
	c.MaxQueue = int64(d.queues.maxBytes)
	if n.peaks != nil {
		c.MaxQueue = max(c.MaxQueue, n.peaks[dir])
	}
	c.MeanQueue = d.queues.mean(n.Now())
	c.Arrived = n.arrivals[dir].arrived
	if n.flow != nil {
		c.Pauses, c.Paused = n.flow.senders[dir].pauses, n.flow.senders[dir].pausedTotal
	}
	return c
}

// BusyFor returns how long a direction's port will still be sending the present packet, which is counted already; 0 if
// it is idle.
func (n *Network) BusyFor(dir LinkDir) fabric.Time { return max(0, n.dirs[dir].busyUntil-n.Now()) }

// QueuePeak returns the largest number of bytes of data that have waited at a direction's port since its last call.
func (n *Network) QueuePeak(dir LinkDir) int64 {
	if n.peaks == nil {
		n.peaks = make([]int64, len(n.dirs))
	}
	q := &n.dirs[dir].queues
	peak := int64(q.maxBytes)
	n.peaks[dir] = max(n.peaks[dir], peak)
	q.maxBytes = q.classes[0].bytes
	return peak
}

// Queued returns the bytes waiting at a direction's port now: of data, and of other packets.
func (n *Network) Queued(dir LinkDir) (data, control int64) {
	q := &n.dirs[dir].queues
	for i := range q.classes[1:] {
		control += int64(q.classes[1+i].bytes)
	}
	return int64(q.classes[0].bytes), control
}

// SwitchCounters is the counters of one switch.
type SwitchCounters struct {
	Drops     [numDropReasons]uint64 // packets dropped, by DropReason
	Buffer    int64                  // bytes of the shared buffer in use now
	MaxBuffer int64
}

// SwitchCounters returns the counters of a switch.
func (n *Network) SwitchCounters(node fabric.NodeID) SwitchCounters {
	s := n.switchAt(node)
	return SwitchCounters{Drops: s.drops, Buffer: s.used, MaxBuffer: s.maxUsed}
}

// Totals counts all packets of a run by what became of them: Created is the sum of Delivered, ToCPU, Pauses, Lost, all
// of Dropped, and InFlight.
type Totals struct {
	Created          int64 // sent by hosts, injected, cloned or replicated
	Delivered        int64 // packets delivered to hosts
	DeliveredPayload int64 // payload bytes delivered to hosts
	ToCPU            int64
	Pauses           int64                 // pause frames that arrived
	Lost             int64                 // packets lost on cut links
	Dropped          [numDropReasons]int64 // packets dropped in switches, by DropReason
	InFlight         int64                 // packets on links and in queues now
}

// Totals returns the totals up to now.
func (n *Network) Totals() Totals {
	var t Totals
	for _, r := range n.regions {
		t.Created += r.totals.Created
		t.Delivered += r.totals.Delivered
		t.DeliveredPayload += r.totals.DeliveredPayload
		t.ToCPU += r.totals.ToCPU
		t.Pauses += r.totals.Pauses
		t.Lost += r.totals.Lost
		for reason, count := range r.totals.Dropped {
			t.Dropped[reason] += count
		}
		if r.index == 0 || r.pool != n.regions[0].pool {
			t.InFlight += int64(r.pool.inUse)
		}
	}
	return t
}
