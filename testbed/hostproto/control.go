package hostproto

import (
	"github.com/ethereal-fabric/ethereal/roce/soft"
	"github.com/ethereal-fabric/ethereal/testbed/host"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// Request is a coordinator's request to a host.
type Request struct {
	Seq uint64 `json:"seq"`
	// Configure restarts the endpoint and the agent. A zero value means a default for hosts in software.
	Configure *host.Settings `json:"configure,omitempty"`
	Job       *Job           `json:"job,omitempty"`
	Expect    []Inbound      `json:"expect,omitempty"`
	Post      []Outbound     `json:"post,omitempty"`
	Stats     bool           `json:"stats,omitempty"`
	Probe     *Probe         `json:"probe,omitempty"` // answered when the probe's time is over
	Clock     bool           `json:"clock,omitempty"` // requests the host's time
}

// Clock is the reading of a host's clock.
type Clock struct {
	// Of names the clock: hosts with the same name share the clock. Empty: unknown.
	Of  string `json:"of"`
	Now int64  `json:"now_ns"`
}

// Probe requests zero-length RDMA WRITEs to a host on a path. A client that requests only probes and the time does not
// replace the coordinator.
type Probe struct {
	Dst     int    `json:"dst"`
	Label   uint16 `json:"label"`
	Packets int    `json:"packets"`
	Timeout int64  `json:"timeout_ns"`
}

// Probed is the result of a [Probe].
type Probed struct {
	Host  int   `json:"host"`
	Sent  int   `json:"sent"` // packets; 0: none, because too many probes are open, or there is no such path
	Lost  int   `json:"lost"`
	Trip  int64 `json:"trip_ns"` // mean round-trip time of the answered ones
	Least int64 `json:"least_ns"`
}

// Job is a host's part in a collective: it posts its rank's messages, each step when the previous one's have
// arrived. All hosts get the same job.
type Job struct {
	Spec collective.Spec `json:"spec"`
	// Key is the key of the memory to which other hosts write; the same at all hosts, and not 0. A job without a
	// key only sets the start time of the previous one.
	Key uint32 `json:"key"`
	At  int64  `json:"at_ns"` // start time; for a job without a key
}

// Inbound is a message that a host is to receive, and its memory.
type Inbound struct {
	ID    uint64 `json:"id"`
	Key   uint32 `json:"key"`
	Bytes int64  `json:"bytes"`
}

// Outbound is a message to send. Those of one request are one batch. Its bytes are computed from Seed and ID.
type Outbound struct {
	ID    uint64 `json:"id"`
	Dst   int    `json:"dst"`
	Bytes int64  `json:"bytes"`
	Key   uint32 `json:"key"` // key of the receiver's memory
}

// Reply is a host's answer to a [Request].
type Reply struct {
	Seq   uint64 `json:"seq,omitempty"`
	Error string `json:"error,omitempty"`
	Stats *Stats `json:"stats,omitempty"`
	Event *Event `json:"event,omitempty"`
	// Probed answers a Probe.
	Probed *Probed `json:"probed,omitempty"`
	Clock  *Clock  `json:"clock,omitempty"`
}

// Kind is the kind of an [Event].
type Kind string

// Kinds of event.
const (
	Posted   Kind = "posted"   // a message was posted: ID, Peer, Bytes, CRC
	Sent     Kind = "sent"     // all bytes of the message are acknowledged
	Received Kind = "received" // a message has arrived completely: ID, Peer, Bytes, CRC
	Done     Kind = "done"     // the rank's part of the job is done
	Flip     Kind = "flip"     // a queue pair has changed its path: QP, From, To, Reason, and First
	Quench   Kind = "quench"   // a source quench arrived: Reason is the verdict on it, Link its link
	Timeout  Kind = "timeout"  // a retransmission timer expired: QP
	Push     Kind = "push"     // a controller's update of links: Instance, Epoch, Snapshot
	Fault    Kind = "fault"    // a contract was violated: Text
)

// Event is an event at a host.
type Event struct {
	Kind  Kind   `json:"kind"`
	At    int64  `json:"at_ns"`
	ID    uint64 `json:"id,omitempty"`
	Peer  int    `json:"peer,omitempty"`
	Bytes int64  `json:"bytes,omitempty"`
	CRC   uint32 `json:"crc,omitempty"` // CRC-32C of the message's bytes

	QP     uint32 `json:"qp,omitempty"`
	From   uint16 `json:"from,omitempty"` // label of the path before a flip
	To     uint16 `json:"to,omitempty"`   // label of the path after a flip
	Reason string `json:"reason,omitempty"`
	// First is the time of the first data packet on the new path. A flip is reported after that packet, or when the
	// queue pair is done without one: 0.
	First int64  `json:"first_ns,omitempty"`
	Link  string `json:"link,omitempty"`
	Text  string `json:"text,omitempty"`

	Instance string `json:"instance,omitempty"` // name of the controller process
	Epoch    uint64 `json:"epoch,omitempty"`    // epoch of the controller's update
	Snapshot bool   `json:"snapshot,omitempty"` // the controller's update was a full snapshot, not a change
}

// Paths counts a host's verdicts about probed paths.
type Paths struct {
	Alive     uint64 `json:"alive"`     // number of probed paths that answered
	Dead      uint64 `json:"dead"`      // number of probed paths that did not answer while others did
	Back      uint64 `json:"back"`      // of the dead ones: that answered later
	Late      uint64 `json:"late"`      // of these: to a probe from before the verdict
	Convicted uint64 `json:"convicted"` // links that several dead paths have in common
}

// Stats are a host's counts since its endpoint was started.
type Stats struct {
	soft.Stats
	LabelBytes []uint64 `json:"label_bytes"` // bytes of data frames sent, by path label
	OtherBytes uint64   `json:"other_bytes"` // of data frames whose label names no path
	Flips      uint64   `json:"flips"`
	Returns    uint64   `json:"returns"`
	Verdicts   []uint64 `json:"verdicts"` // on quenches, by hostagent.Verdict
	Paths      Paths    `json:"paths"`
	Posted     uint64   `json:"posted"`
	Sent       uint64   `json:"sent"`
	Received   uint64   `json:"received"`
	Open       int      `json:"open"` // number of messages not completely sent
	QPs        int      `json:"qps"`  // largest number of queue pairs open at once
	Controller string   `json:"controller"`
	CPU        int64    `json:"cpu_ns"` // CPU time of the process, in ns
	RSS        int64    `json:"rss"`    // resident memory, in bytes
	PortLost   uint64   `json:"port_lost"`
}
