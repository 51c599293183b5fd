package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Result is the measurements of one run. As JSON it is one object on one line, described by the schema
// result.schema.json. Times are microseconds of simulated time from the start of the collective, unless they say
// otherwise.
type Result struct {
	Scenario   string `json:"scenario"`
	Scheme     string `json:"scheme"`     // with its parameters, if any
	Collective string `json:"collective"` // kind, and algorithm unless it is the default
	Notifier   string `json:"notifier"`   // none, timeout, quench, gnmi or all
	Seed       uint64 `json:"seed"`

	// CCT is the collective completion time: when the last rank has received everything and has the last
	// acknowledgement of all its messages. nil if the run did not finish.
	CCT *float64 `json:"cct_us"`
	// Bound is the lower bound on CCT for this fabric, collective and failure. nil if the failure leaves hosts
	// unreachable.
	Bound *float64 `json:"bound_us"`

	// UplinkBytesMax and Mean are over all ToR uplinks, upward direction: bytes of RoCEv2 data packets on the wire,
	// headers included, from the switches' P4 counters, or as computed by the world without packets.
	UplinkBytesMax  int64   `json:"uplink_bytes_max"`
	UplinkBytesMean float64 `json:"uplink_bytes_mean"`
	// QPsPerHostMax is the largest number of queue pairs that a host had open at once.
	QPsPerHostMax int `json:"qps_per_host_max"`
	// Drops are packets dropped in switches for lack of buffer or of a route, or by a PFC watchdog, without those
	// of LostToFailure.
	Drops int64 `json:"drops"`
	// Retransmissions counts retransmitted data packets.
	Retransmissions int64 `json:"retransmissions"`
	// LostToFailure are packets lost on a cut link, in flight on it or sent into it, and packets that a switch
	// dropped because every possible next link was dead: data and control alike, over the whole run.
	LostToFailure int64 `json:"lost_to_failure"`
	// LastFlip is the time from the first cut to the last change of a queue pair's path, in microseconds, without
	// returns to a restored path. nil if no queue pair changed its path.
	LastFlip *float64 `json:"last_flip_us"`
	// EventsSHA256 is the hash of the run's event log. Equal inputs give equal hashes.
	EventsSHA256 string `json:"events_sha256"`

	Failure string `json:"failure"` // name of the failure case
	// FirstFailure is the first event of a link; nil: none.
	FirstFailure *FirstFailure `json:"first_failure"`
	Bytes        int64         `json:"bytes"`    // of the collective: a rank's vector, or a sender's message
	Finished     bool          `json:"finished"` // every message arrived completely
	// End is why the run ended: finished, deadline (simulated time ran out), stalled (no event was left) or
	// interrupted (by the user).
	End     End     `json:"end"`
	EndTime float64 `json:"end_us"` // simulated time at the end
	// CutOff names the hosts whose links were all down when an unfinished run ended, and says since when: no scheme
	// could have finished the run. Empty: there was no such host, the run finished, or an earlier version wrote the
	// result.
	CutOff string `json:"cut_off"`

	// StepBound is a lower bound on CCT that is at least Bound: it also takes into account the order of the messages,
	// computations and late ranks (docs/bound.md). nil as for Bound, and in results of earlier versions.
	StepBound *float64 `json:"step_bound_us"`

	Timeouts int64 `json:"timeouts"` // retransmission timers that expired
	NAKs     int64 `json:"naks"`     // negative acknowledgements that senders received
	Quenches int64 `json:"quenches"` // source quenches that hosts received
	Flips    int   `json:"flips"`    // changes of a queue pair's path
	// Marked are data packets that arrived with a congestion mark.
	Marked int64 `json:"ecn_marked"`
	// Pauses counts how often a switch paused the sender of a link for lack of buffer, or a host paused its switch
	// in a storm.
	Pauses int64 `json:"pauses"`

	PacketHops uint64  `json:"packet_hops"` // packets across links
	SimEvents  uint64  `json:"sim_events"`  // simulation events
	WallMS     float64 `json:"wall_ms"`     // real duration of the run; the only number that varies

	// UplinkLoads, QueueMax and QueueMean are quantiles, from the smallest to the largest in twenty equal steps:
	// over ToR uplinks (used part of the upward capacity) and over all ports of switches (largest number of waiting
	// data bytes, and its mean over the run). Empty if not measured.
	UplinkLoads []float64 `json:"uplink_load_quantiles"`
	QueueMax    []float64 `json:"queue_max_quantiles"`
	QueueMean   []float64 `json:"queue_mean_quantiles"`

	// Origin of the result. Version is the program's; RunSHA256 is the hash of all of the run's inputs except the
	// program; Sweep and Variant are the sweep and its varied values, by key path.
	Version   string            `json:"version"`
	RunSHA256 string            `json:"run_sha256"`
	Sweep     string            `json:"sweep"`
	Variant   map[string]string `json:"variant"`
	// RanOn is the machine of the run; nil in results of earlier versions. It affects only WallMS.
	RanOn *Machine `json:"ran_on"`

	// Fabric is the spec of the run's fabric. Derived counts may be filled in.
	Fabric      fabric.Spec `json:"fabric"`
	Links       []LinkLoad  `json:"links"`        // both directions of every link, by link number
	FlipRecords []FlipEvent `json:"flip_records"` // in order of time
	Timeline    []Event     `json:"timeline"`     // in order of time; without flips
	// Steps are the repetitions of a workload's jobs, job by job.
	Steps []Step `json:"steps"`
	// Flows are the messages' completion times; nil: the world has none, or none arrived.
	Flows *Flows `json:"flows"`
	// EqualHashes is the scenario's switch.equal_hashes.
	EqualHashes bool `json:"equal_hashes"`
	// BusBandwidth is the collective's bus bandwidth as nccl-tests defines it, in GB/s; nil: it did not finish, or
	// nccl-tests has no such collective.
	BusBandwidth *float64 `json:"bus_gb_per_s"`
	// FastForward is nil for runs of scenarios without fast_forward. Numbers of packets and bytes are then of what was
	// sent.
	FastForward *FastForward `json:"fast_forward"`
}

// FastForward says how many collectives of a program were skipped instead of being sent, of those that leave servers.
type FastForward struct {
	Skipped int `json:"skipped"`
	Of      int `json:"of"`
}

// Machine is a machine that carried out runs.
type Machine struct {
	Host   string `json:"host"`
	Cores  int    `json:"cores"`  // number of cores that the program could use
	System string `json:"system"` // operating system and processor, as in linux/amd64
}

// FirstFailure is the first event of a link in a run.
type FirstFailure struct {
	Case string  `json:"case"` // the failure case's name, without the time if it has several
	Time float64 `json:"t_us"`
	// Healthy is the completion time of the same run without failure, if it was made.
	Healthy *float64 `json:"healthy_us"`
	// AfterEnd: the collective was complete before the failure. The run shows nothing about the failure.
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

// LinkLoad is the load of one direction of a link.
type LinkLoad struct {
	Link         string `json:"link"` // name of the link, lower node first: "tor0-agg1"
	From         string `json:"from"`
	To           string `json:"to"`
	DataBytes    int64  `json:"data_bytes"`    // bytes of RoCEv2 data packets on the wire
	ControlBytes int64  `json:"control_bytes"` // acknowledgements, quenches and all other packets
	// Share is the used part of the direction's capacity, from the start to the end of the run: 0 to 1.
	Share float64 `json:"share"`
	Cut   bool    `json:"cut"` // the link was cut at some time
}

// FlipEvent is one change of a queue pair's path.
type FlipEvent struct {
	Time   float64 `json:"t_us"`
	Host   string  `json:"host"`
	QP     uint32  `json:"qp"`
	From   uint16  `json:"from"` // label of the old path
	To     uint16  `json:"to"`   // label of the new path
	Reason string  `json:"reason"`
}

// Event is something that happens in a run: on the failure timeline, and in what a run reports while it runs.
type Event struct {
	Time  float64 `json:"t_us"`
	Kind  Kind    `json:"kind"`
	Where string  `json:"where"` // name of the node or link
	Text  string  `json:"text"`
}

// EventAt returns an event at a time in the run.
func EventAt(now fabric.Time, kind Kind, where, text string) Event {
	return Event{Time: now.Micros(), Kind: kind, Where: where, Text: text}
}

// At returns the event's time.
func (e Event) At() fabric.Time { return fabric.Time(math.Round(e.Time * float64(fabric.Microsecond))) }

// Event returns the flip as an event of kind flip.
func (f FlipEvent) Event() Event {
	return Event{f.Time, KindFlip, f.Host, fmt.Sprintf("queue pair %d from path %d to %d: %s", f.QP, f.From, f.To, f.Reason)}
}

// Kind is the kind of an [Event]: one of these, an action of a scenario, or sync, controller and refused.
type Kind string

// KindFlip is a change of a queue pair's path. A result's timeline leaves it out: its flip records have it.
const KindFlip Kind = "flip"

// Kinds of events on the timeline, in the order in which a failure causes them.
const (
	KindCut        Kind = "cut"        // a link was cut
	KindFirstHit   Kind = "first_hit"  // the first packet was lost on a cut link
	KindDetect     Kind = "detect"     // the switches at the link's ends noticed its change
	KindQuench     Kind = "quench"     // a host received its first source quench
	KindGNMI       Kind = "gnmi"       // the controller received a switch's notification
	KindWrite      Kind = "write"      // the controller has the last acknowledgement of its table writes
	KindSuspect    Kind = "suspect"    // the controller changed the suspicion of a link
	KindPush       Kind = "push"       // the agents received the controller's link update
	KindTimeout    Kind = "timeout"    // a host's first retransmission timer expired
	KindRetransmit Kind = "retransmit" // a host began to retransmit
	KindRestore    Kind = "restore"    // a link works again
	KindDone       Kind = "done"       // a rank finished
	KindClock      Kind = "clock"      // hosts with another clock, and its error; at 0
)

// Kinds returns all kinds of event of the timeline.
func Kinds() []Kind {
	return []Kind{KindCut, KindFirstHit, KindDetect, KindQuench, KindGNMI, KindWrite, KindSuspect, KindPush,
		KindTimeout, KindRetransmit, KindRestore, KindDone, KindClock}
}

// interrupted reports whether the user ended the run: the collective's outcome is then unknown.
func (r *Result) interrupted() bool { return r.CCT == nil && r.End == Interrupted }

// Slowdown returns CCT / Bound; ok is false if either is unknown.
func (r *Result) Slowdown() (ratio float64, ok bool) {
	if r.CCT == nil || r.Bound == nil || *r.Bound <= 0 {
		return 0, false
	}
	return *r.CCT / *r.Bound, true
}

// StepSlowdown returns CCT / StepBound; ok is false if either is unknown.
func (r *Result) StepSlowdown() (ratio float64, ok bool) {
	if r.CCT == nil || r.StepBound == nil || *r.StepBound <= 0 {
		return 0, false
	}
	return *r.CCT / *r.StepBound, true
}

// operation returns the collective with its size.
func (r *Result) operation() string {
	return r.Collective + " " + fabric.Bytes(r.Bytes).String()
}

// title is [Result.operation] for display: a size that no unit divides is rounded.
func (r *Result) title() string {
	text := fabric.Bytes(r.Bytes).String()
	if len(text) > len("1000MB") {
		text = fabric.Bytes(r.Bytes).Rough()
	}
	return r.Collective + " " + text
}

// String names the run: scenario, failure, collective and size, notifier, scheme, seed, and varied values.
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
