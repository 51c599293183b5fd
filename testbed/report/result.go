package report

import (
	"fmt"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Result is what one run measured. As JSON it is one object on one line; its
// schema, which says the same, is result.schema.json. Times are microseconds of
// simulated time from the start of the collective, unless they say otherwise.
type Result struct {
	Scenario   string `json:"scenario"`
	Scheme     string `json:"scheme"`     // with its parameters, when it has any
	Collective string `json:"collective"` // kind, and algorithm unless it is the plain one
	Notifier   string `json:"notifier"`   // none, timeout, quench, gnmi or all
	Seed       uint64 `json:"seed"`

	// CCT is the collective completion time: when the last rank has received
	// everything and has the last acknowledgement of all it sent. nil when the
	// run did not finish.
	CCT *float64 `json:"cct_us"`
	// Bound is the lower bound on CCT for this fabric, collective and failure.
	// nil when there is none because the failure leaves hosts unreachable.
	Bound *float64 `json:"bound_us"`

	// UplinkBytesMax and Mean are over all ToR uplinks, upward direction: bytes
	// of RoCEv2 data packets on the wire, headers included, as the P4 counters
	// of the switches have them, or as the world without packets counts them.
	UplinkBytesMax  int64   `json:"uplink_bytes_max"`
	UplinkBytesMean float64 `json:"uplink_bytes_mean"`
	// QPsPerHostMax is the largest number of queue pairs that a host had open at
	// once.
	QPsPerHostMax int `json:"qps_per_host_max"`
	// Drops are packets dropped in switches for want of buffer or of a route, or by
	// a watchdog of PFC, without those of LostToFailure.
	Drops int64 `json:"drops"`
	// Retransmissions counts retransmitted data packets.
	Retransmissions int64 `json:"retransmissions"`
	// LostToFailure are packets that a cut link swallowed, in flight on it or sent
	// into it, or that a switch dropped because every way on was dead: data and
	// control alike, over the whole run.
	LostToFailure int64 `json:"lost_to_failure"`
	// LastFlip is the time from the first cut to the last change of a queue
	// pair's path, in microseconds, returns to a restored path not counted. nil
	// when no queue pair changed its path.
	LastFlip *float64 `json:"last_flip_us"`
	// EventsSHA256 is the hash of the run's event log. Equal inputs give equal
	// hashes.
	EventsSHA256 string `json:"events_sha256"`

	Failure string `json:"failure"` // the failure case's name
	// FirstFailure is when something first happened to a link; nil when nothing did.
	FirstFailure *FirstFailure `json:"first_failure"`
	Bytes        int64         `json:"bytes"`    // of the collective: a rank's vector, or a sender's message
	Finished     bool          `json:"finished"` // every message completed, once
	// End says why the run ended: finished, deadline (simulated time ran out),
	// stalled (nothing was left to happen) or interrupted (by the user).
	End     End     `json:"end"`
	EndTime float64 `json:"end_us"` // simulated time at the end

	Timeouts int64 `json:"timeouts"` // retransmission timers that expired
	NAKs     int64 `json:"naks"`     // negative acknowledgements that senders received
	Quenches int64 `json:"quenches"` // source quenches that hosts received
	Flips    int   `json:"flips"`    // changes of a queue pair's path
	// Marked are data packets that arrived with congestion experienced.
	Marked int64 `json:"ecn_marked"`
	// Pauses is how often a switch paused the sender of a link, for want of buffer,
	// or a host its switch in a storm.
	Pauses int64 `json:"pauses"`

	PacketHops uint64  `json:"packet_hops"` // packets across links
	SimEvents  uint64  `json:"sim_events"`  // simulation events
	WallMS     float64 `json:"wall_ms"`     // real time the run took; the one number that varies

	// UplinkLoads, QueueMax and QueueMean are quantiles, from the least to the
	// largest in twenty equal steps, over ToR uplinks (part of the upward capacity
	// used) and over all ports of switches (most bytes of data that waited, and
	// their mean over the run). Empty where nobody measured.
	UplinkLoads []float64 `json:"uplink_load_quantiles"`
	QueueMax    []float64 `json:"queue_max_quantiles"`
	QueueMean   []float64 `json:"queue_mean_quantiles"`

	// Where the result is from. Version is of the program; RunSHA256 the hash of
	// all that the run depends on, the program left aside; Sweep and Variant name
	// the sweep that asked for it and what that varied, key path to value.
	Version   string            `json:"version"`
	RunSHA256 string            `json:"run_sha256"`
	Sweep     string            `json:"sweep"`
	Variant   map[string]string `json:"variant"`
	// RanOn is where the run was carried out; nil in results of earlier versions. Nothing else but WallMS follows from it.
	RanOn *Place `json:"ran_on"`

	// Fabric is what the run's fabric was built from. Derived counts may be
	// filled in.
	Fabric      fabric.Spec `json:"fabric"`
	Links       []LinkLoad  `json:"links"`        // both directions of every link, by link number
	FlipRecords []FlipEvent `json:"flip_records"` // in order of time
	Timeline    []Event     `json:"timeline"`     // in order of time; flips are not repeated in it
}

// Place is a machine that carried out runs.
type Place struct {
	Host   string `json:"host"`
	Cores  int    `json:"cores"`  // that the program could use
	System string `json:"system"` // as in linux/amd64
}

// FirstFailure is the first thing that happened to a link in a run.
type FirstFailure struct {
	Case string  `json:"case"` // the failure case's name, without which of its times it was
	Time float64 `json:"t_us"`
	// Healthy is what the same run takes without it, where that was asked.
	Healthy *float64 `json:"healthy_us"`
	// AfterEnd: the collective was complete by then. The run says nothing about the
	// failure.
	AfterEnd bool `json:"after_end"`
}

// End is why a run ended.
type End string

// Ends of a run.
const (
	Finished    End = "finished"
	Deadline    End = "deadline"
	Stalled     End = "stalled"
	Interrupted End = "interrupted"
)

// LinkLoad is what one direction of a link carried.
type LinkLoad struct {
	Link         string `json:"link"` // lower node first: "tor0-agg1"
	From         string `json:"from"`
	To           string `json:"to"`
	DataBytes    int64  `json:"data_bytes"`    // RoCEv2 data packets, on the wire
	ControlBytes int64  `json:"control_bytes"` // acknowledgements, quenches and all else
	// Share is the part of the direction's capacity, from the start to the end
	// of the run, that was used: 0 to 1.
	Share float64 `json:"share"`
	Cut   bool    `json:"cut"` // the link was cut at some time in the run
}

// FlipEvent is one change of a queue pair's path.
type FlipEvent struct {
	Time   float64 `json:"t_us"`
	Host   string  `json:"host"`
	QP     uint32  `json:"qp"`
	From   uint16  `json:"from"` // path label
	To     uint16  `json:"to"`   // path label
	Reason string  `json:"reason"`
}

// Event is one mark on the failure timeline.
type Event struct {
	Time  float64 `json:"t_us"`
	Kind  Kind    `json:"kind"`
	Where string  `json:"where"` // node or link
	Text  string  `json:"text"`
}

// Kind is what an [Event] is.
type Kind string

// Kinds of event, in the order in which a failure makes them.
const (
	KindCut        Kind = "cut"        // a link died
	KindFirstHit   Kind = "first_hit"  // the first packet was lost to a cut
	KindDetect     Kind = "detect"     // the switches at the link's ends know of its change
	KindQuench     Kind = "quench"     // a host received its first source quench
	KindGNMI       Kind = "gnmi"       // the controller received a switch's notification
	KindWrite      Kind = "write"      // the controller has the last acknowledgement of its table writes
	KindSuspect    Kind = "suspect"    // the controller changed its mind on a link that only agents complain of
	KindPush       Kind = "push"       // the agents received the controller's link update
	KindTimeout    Kind = "timeout"    // a host's first retransmission timer expired
	KindRetransmit Kind = "retransmit" // a host began to send again what was lost
	KindRestore    Kind = "restore"    // a link came back
	KindDone       Kind = "done"       // a rank finished
	KindClock      Kind = "clock"      // hosts whose clock is another one, and how that was read; at 0
)

// Kinds returns all kinds of event.
func Kinds() []Kind {
	return []Kind{KindCut, KindFirstHit, KindDetect, KindQuench, KindGNMI, KindWrite, KindSuspect, KindPush,
		KindTimeout, KindRetransmit, KindRestore, KindDone, KindClock}
}

// interrupted reports whether the user ended the run: what became of the
// collective is then not known.
func (r *Result) interrupted() bool { return r.CCT == nil && r.End == Interrupted }

// Slowdown returns CCT / Bound; ok is false when either is not known.
func (r *Result) Slowdown() (ratio float64, ok bool) {
	if r.CCT == nil || r.Bound == nil || *r.Bound <= 0 {
		return 0, false
	}
	return *r.CCT / *r.Bound, true
}

// operation returns the collective with its size.
func (r *Result) operation() string {
	return r.Collective + " " + fabric.Bytes(r.Bytes).String()
}

// title is [Result.operation] for people: a size that no unit divides is rounded.
func (r *Result) title() string {
	text := fabric.Bytes(r.Bytes).String()
	if len(text) > len("1000MB") {
		text = fabric.Bytes(r.Bytes).Rough()
	}
	return r.Collective + " " + text
}

// String names the run: scenario, failure, collective and size, notifier, scheme,
// seed, and what a sweep varied.
func (r *Result) String() string {
	parts := []string{r.Scenario, r.Failure, r.operation()}
	if r.Notifier != "none" && r.Notifier != "" {
		parts = append(parts, r.Notifier)
	}
	parts = append(parts, r.Scheme, fmt.Sprintf("seed %d", r.Seed))
	if v := r.variantText(""); v != "" {
		parts = append(parts, v)
	}
	return strings.Join(parts, ", ")
}
