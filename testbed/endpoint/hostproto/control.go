package hostproto

import (
	"github.com/ethereal-fabric/ethereal/testbed/endpoint/host"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint/soft"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// Request is what a coordinator asks of a host.
type Request struct {
	Seq       uint64     `json:"seq"`
	Configure *Settings  `json:"configure,omitempty"`
	Job       *Job       `json:"job,omitempty"`
	Expect    []Inbound  `json:"expect,omitempty"`
	Post      []Outbound `json:"post,omitempty"`
	Stats     bool       `json:"stats,omitempty"`
	Probe     *Probe     `json:"probe,omitempty"` // answered when its time is over
	Clock     bool       `json:"clock,omitempty"` // what time it is there
}

// Clock is what a host's clock says.
type Clock struct {
	// Of names the clock: hosts whose clock has one name share it. Empty: not known.
	Of  string `json:"of"`
	Now int64  `json:"now_ns"`
}

// Probe asks for zero-length writes to a host down a path. Who asks for nothing but this and the time does not take a
// coordinator's place.
type Probe struct {
	Dst     int    `json:"dst"`
	Label   uint16 `json:"label"`
	Packets int    `json:"packets"`
	Timeout int64  `json:"timeout_ns"`
}

// Probed is what became of a [Probe].
type Probed struct {
	Host  int   `json:"host"`
	Sent  int   `json:"sent"` // 0: none; too many are under way, or there is no such path
	Lost  int   `json:"lost"`
	Trip  int64 `json:"trip_ns"` // mean of those answered
	Least int64 `json:"least_ns"`
}

// Settings say how a host's endpoint and agent behave. They start both anew. What is
// zero in [host.Settings] has a default for hosts in software.
type Settings struct {
	host.Settings
	// Nonce goes into partition keys and first sequence numbers; the same at all
	// hosts, and another each time, so that late packets of earlier ones are recognised.
	Nonce     uint64 `json:"nonce"`
	NoQuench  bool   `json:"no_quench"`  // quenches are counted, not believed
	NoUpdates bool   `json:"no_updates"` // controllers are listened to, not believed
	NoReports bool   `json:"no_reports"` // time-outs are not reported to controllers, and their suspicions are ignored
}

// Job is a host's part in a collective: it posts its rank's messages, each step
// when the one before has arrived. All hosts get the same job.
type Job struct {
	Spec collective.Spec `json:"spec"`
	// Key is of the memory that others write to; the same at all hosts, and not 0.
	// A job without a key only says when the one before begins.
	Key uint32 `json:"key"`
	At  int64  `json:"at_ns"` // when to begin; of a job without a key
}

// Inbound is a message that is to come: memory of its own.
type Inbound struct {
	ID    uint64 `json:"id"`
	Key   uint32 `json:"key"`
	Bytes int64  `json:"bytes"`
}

// Outbound is a message to be sent. Those of one request are one batch. Its bytes
// are made from Seed and ID.
type Outbound struct {
	ID    uint64 `json:"id"`
	Dst   int    `json:"dst"`
	Bytes int64  `json:"bytes"`
	Key   uint32 `json:"key"` // of the receiver's memory
}

// Reply is what a host says.
type Reply struct {
	Seq   uint64 `json:"seq,omitempty"`
	Error string `json:"error,omitempty"`
	Stats *Stats `json:"stats,omitempty"`
	Event *Event `json:"event,omitempty"`
	// Probed answers a Probe.
	Probed *Probed `json:"probed,omitempty"`
	Clock  *Clock  `json:"clock,omitempty"`
}

// Kind says what an [Event] is.
type Kind string

// Kinds of event.
const (
	Posted   Kind = "posted"   // a message was handed to the endpoint: ID, Peer, Bytes, CRC
	Sent     Kind = "sent"     // all of it is acknowledged
	Received Kind = "received" // a message has arrived whole: ID, Peer, Bytes, CRC
	Done     Kind = "done"     // the rank's part of the job is
	Flip     Kind = "flip"     // a queue pair has changed its path: QP, From, To, Reason, and First
	Quench   Kind = "quench"   // a source quench came: Reason is what became of it, Link which link it is about
	Timeout  Kind = "timeout"  // a retransmission timer expired: QP
	Push     Kind = "push"     // a controller reported links: Instance, Epoch, Snapshot
	Fault    Kind = "fault"    // something broke its contract: Text
)

// Event is what happened at a host.
type Event struct {
	Kind  Kind   `json:"kind"`
	At    int64  `json:"at_ns"`
	ID    uint64 `json:"id,omitempty"`
	Peer  int    `json:"peer,omitempty"`
	Bytes int64  `json:"bytes,omitempty"`
	CRC   uint32 `json:"crc,omitempty"` // CRC-32C of the message's bytes

	QP     uint32 `json:"qp,omitempty"`
	From   uint16 `json:"from,omitempty"` // path label
	To     uint16 `json:"to,omitempty"`   // path label
	Reason string `json:"reason,omitempty"`
	// First is when the first data packet left on the new path; a flip is reported when
	// it has, or when the queue pair is done without: 0.
	First int64  `json:"first_ns,omitempty"`
	Link  string `json:"link,omitempty"`
	Text  string `json:"text,omitempty"`

	Instance string `json:"instance,omitempty"` // of the controller
	Epoch    uint64 `json:"epoch,omitempty"`    // of its update
	Snapshot bool   `json:"snapshot,omitempty"` // it was the controller's whole state
}

// Stats is what a host has counted since its endpoint was started.
type Stats struct {
	soft.Stats
	LabelBytes []uint64 `json:"label_bytes"` // of data frames sent, by label
	OtherBytes uint64   `json:"other_bytes"` // of those whose label names no path
	Flips      uint64   `json:"flips"`
	Returns    uint64   `json:"returns"`
	Verdicts   []uint64 `json:"verdicts"` // on quenches, by hostagent.Verdict
	Posted     uint64   `json:"posted"`
	Sent       uint64   `json:"sent"`
	Received   uint64   `json:"received"`
	Open       int      `json:"open"` // messages not sent
	QPs        int      `json:"qps"`  // most that were open at once
	Controller string   `json:"controller"`
	CPU        int64    `json:"cpu_ns"` // the process has used
	RSS        int64    `json:"rss"`    // bytes of memory, now
	PortLost   uint64   `json:"port_lost"`
}
