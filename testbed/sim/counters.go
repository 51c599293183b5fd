package sim

import "github.com/ethereal-fabric/ethereal/fabric"

// DropReason says why a packet ended inside a switch.
type DropReason uint8

// The reasons.
const (
	DropBuffer        DropReason = iota // over its queue's threshold, or the buffer was full
	DropPipeline                        // the program dropped it, or consumed it as it does a port event
	DropNoPort                          // sent to a port that does not exist
	DropRecirculation                   // one packet turned into too many
	DropOversize                        // left egress with more than MaxHeader real bytes
	DropWatchdog                        // the port had been paused for too long, see PFC.Watchdog
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

// LinkCounters is what happened on one direction of a link and in the egress
// port that feeds it. Packets and bytes are counted when their first bit leaves
// the port, those lost later included.
type LinkCounters struct {
	DataPackets    int64 // of class 0
	DataPayload    int64 // bytes of message in them
	ControlPackets int64 // of the other classes
	Bytes          int64 // of all packets, headers included, without Config.Overhead
	Arrived        int64 // packets that reached the far end

	Dropped int64 // packets the port's queues refused
	Trimmed int64 // cut to their headers there

	Lost        int64 // packets lost to a cut of this direction
	LostData    int64 // of class 0
	LostPayload int64 // bytes of message in them
	FirstLost   fabric.Time
	LastLost    fabric.Time // meaningful, as FirstLost, if Lost > 0

	Pauses int64       // times that the far end had the sender pause
	Paused fabric.Time // for how long in all, pauses that go on apart

	MaxQueue  int64   // most bytes of class 0 that waited
	MeanQueue float64 // bytes of class 0, over all time so far
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
		c.Pauses, c.Paused = n.flow.senders[dir].pauses, n.flow.senders[dir].rested
	}
	return c
}

// Sending returns for how long a direction's port goes on sending the packet that it has begun, and counted; 0 if it is idle.
func (n *Network) Sending(dir LinkDir) fabric.Time { return max(0, n.dirs[dir].busyUntil-n.Now()) }

// QueuePeak returns the most bytes of class 0 that have waited at a direction's port since it was last asked.
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

// Queued returns the bytes that wait at a direction's port now: of class 0, and
// of the others.
func (n *Network) Queued(dir LinkDir) (data, control int64) {
	q := &n.dirs[dir].queues
	for i := range q.classes[1:] {
		control += int64(q.classes[1+i].bytes)
	}
	return int64(q.classes[0].bytes), control
}

// SwitchCounters is what happened in one switch.
type SwitchCounters struct {
	Drops     [numDropReasons]uint64 // by DropReason
	Buffer    int64                  // bytes of shared buffer taken now
	MaxBuffer int64
}

// SwitchCounters returns the counters of a switch.
func (n *Network) SwitchCounters(node fabric.NodeID) SwitchCounters {
	s := n.switchAt(node)
	return SwitchCounters{Drops: s.drops, Buffer: s.used, MaxBuffer: s.maxUsed}
}

// Totals accounts for every packet there has been: Created is the sum of
// Delivered, ToCPU, Pauses, Lost, the Dropped and InFlight.
type Totals struct {
	Created          int64 // sent by hosts, injected, cloned or replicated
	Delivered        int64 // to hosts
	DeliveredPayload int64 // bytes
	ToCPU            int64
	Pauses           int64                 // pause frames that arrived
	Lost             int64                 // to cut links
	Dropped          [numDropReasons]int64 // by DropReason
	InFlight         int64                 // on links and in queues now
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
