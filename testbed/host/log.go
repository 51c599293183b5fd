package host

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/roce/frame"
	"github.com/ethereal-fabric/ethereal/roce/transport"
)

// Record is a line of an event log: the configuration of a core, a call of one of its methods, or one effect of a call.
// Effects follow their call. Nodes and links are numbers; zero values are left out.
//
//	{"new":{"Host":0,"Seed":1,"Scheme":"ethereal","BatchWindow":"100ns"}}
//	{"at":"10us","call":"post","message":7,"dst":4,"bytes":8192}
//	{"at":"10.1us","call":"tick"}
//	{"do":"open","qp":1,"message":7,"dst":4,"bytes":4096,"label":1,"start":"10.1us"}
//	{"do":"open","qp":2,"message":7,"dst":4,"offset":4096,"bytes":4096,"start":"10.1us"}
//
// Label and Echo are logged one line per packet; their effect is the label.
type Record struct {
	New  *Start      `json:"new,omitempty"`
	At   fabric.Time `json:"at,omitempty"`   // time of the recorded call
	Call string      `json:"call,omitempty"` // post, tick, ...: a method of [Core]
	Do   string      `json:"do,omitempty"`   // open, resend, ...: a method of [Endpoint] or [Shell]

	QP       transport.QP  `json:"qp,omitempty"`
	Message  uint64        `json:"message,omitempty"`
	Dst      fabric.NodeID `json:"dst,omitempty"`
	Offset   uint64        `json:"offset,omitempty"`
	Bytes    int64         `json:"bytes,omitempty"`
	Label    fabric.Label  `json:"label,omitempty"`
	Start    fabric.Time   `json:"start,omitempty"` // of a queue pair, an alarm, or the end of a hold
	Inbound  bool          `json:"inbound,omitempty"`
	Question uint32        `json:"question,omitempty"` // number of a path probe
	Fault    string        `json:"fault,omitempty"`

	Lost    *hostagent.Loss    `json:"lost,omitempty"`
	Overdue *hostagent.Overdue `json:"overdue,omitempty"`
	Echo    *transport.Echo    `json:"echo,omitempty"`
	Quench  *frame.Quench      `json:"quench,omitempty"`
	Flip    *hostagent.Flip    `json:"flip,omitempty"`
	Update  *statepb.Update    `json:"update,omitempty"`
	Probe   *ProbeRequest      `json:"probe,omitempty"`
	Probed  *ProbeResult       `json:"probed,omitempty"`
}

// Start is the configuration of a core, as written in the log. Its times are not negative: two flags replace the
// negative values that mean "none".
type Start struct {
	Config
	NoJitter bool `json:",omitempty"`
	NoGrace  bool `json:",omitempty"`
}

func (l *Log) start(c Config) {
	s := Start{c, c.StartJitter < 0, c.TimeoutGrace < 0}
	s.StartJitter, s.TimeoutGrace = max(0, c.StartJitter), max(0, c.TimeoutGrace)
	l.add(Record{New: &s})
}

func (s *Start) restore(f *fabric.Fabric) error {
	s.Fabric = f
	if s.NoJitter {
		s.StartJitter = -1
	}
	if s.NoGrace {
		s.TimeoutGrace = -1
	}
	if s.Host < 0 || int(s.Host) >= f.Hosts() {
		return fmt.Errorf("%d is no host of this fabric; name the fabric that the log is of", s.Host)
	}
	return nil
}

// Log writes the event log of a core, one [Record] per line.
type Log struct {
	to  *json.Encoder
	err error
}

// NewLog returns an event log of a host's core that is written to w. Writes are small: give it a buffered writer.
func NewLog(w io.Writer) *Log { return &Log{to: json.NewEncoder(w)} }

// Err returns the first error of writing. Nothing is written after it.
func (l *Log) Err() error { return l.err }

func (l *Log) add(r Record) {
	if l.err == nil {
		l.err = l.to.Encode(&r)
	}
}

// ErrLog is wrapped by every error about a line of an event log.
var ErrLog = errors.New("host: bad line of an event log")

// maxRecord is the maximum length of a line, in bytes.
const maxRecord = 1 << 20

// ReadLog calls each with the records of an event log. The first one is the configuration, of a host of f.
func ReadLog(r io.Reader, f *fabric.Fabric, each func(Record) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxRecord)
	begun := false
	n := 1
	for ; lines.Scan(); n++ {
		var rec Record
		dec := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		dec.DisallowUnknownFields()
		err := dec.Decode(&rec)
		switch {
		case err != nil:
		case rec.New != nil:
			begun, err = true, rec.New.restore(f)
		case !begun:
			err = errors.New(`a log begins with {"new":...}, which says whose it is`)
		case rec.Call == "" && rec.Do == "":
			err = errors.New("want new, call or do")
		}
		if err == nil {
			err = each(rec)
		}
		if err != nil {
			return fmt.Errorf("%w: line %d: %w", ErrLog, n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%w: line %d: %w", ErrLog, n, err)
	}
	if !begun {
		return fmt.Errorf("%w: it is empty", ErrLog)
	}
	return nil
}

// Play repeats a recorded call on another core. The error names what the record lacks.
func (r *Record) Play(c *Core) error {
	switch {
	case r.Call == "quench" && r.Quench == nil, r.Call == "echo" && r.Echo == nil, r.Call == "probe" && r.Probe == nil,
		r.Call == "lost" && r.Lost == nil, r.Call == "overdue" && r.Overdue == nil:
		return fmt.Errorf("call %s: want %s as well", r.Call, r.Call)
	case r.Call == "congested" && (r.Dst < 0 || int(r.Dst) >= c.logic.cfg.Fabric.Hosts()):
		return fmt.Errorf("call congested: dst: %d is no host", r.Dst)
	}
	scheme := &c.logic.scheme
	switch r.Call {
	case "post":
		c.Post(r.At, hostagent.Flow{ID: r.Message, Dst: r.Dst, Bytes: r.Bytes})
	case "tick":
		c.Tick(r.At)
	case "received":
		c.Received(r.At)
	case "label":
		if _, open := c.logic.qps[r.QP]; scheme.packets != nil && open {
			c.Label(r.At, r.QP)
		}
	case "echo":
		if scheme.packets != nil {
			c.Echo(r.At, r.QP, *r.Echo)
		}
	case "lost-by":
		if scheme.lostBy != nil {
			c.LostBy(r.At, r.QP, r.Label)
		}
	case "acked":
		c.Acked(r.At, r.QP, r.Bytes)
	case "done":
		c.Done(r.At, r.QP)
	case "abandon":
		c.Abandon(r.At, r.Message)
	case "refuse":
		c.Refuse(r.At, r.QP)
	case "timeout":
		c.Timeout(r.At, r.QP)
	case "lost":
		if scheme.losses != nil {
			c.Lost(r.At, r.QP, transport.Loss(*r.Lost))
		}
	case "overdue":
		if scheme.losses != nil {
			c.Overdue(r.At, r.QP, transport.Overdue(*r.Overdue))
		}
	case "path-answered":
		if scheme.losses != nil {
			c.PathAnswered(r.At, r.Dst, r.Question)
		}
	case "congested":
		if scheme.losses != nil {
			c.Congested(r.At, r.Dst, r.Label, r.Inbound)
		}
	case "quench":
		c.Quench(r.At, *r.Quench)
	case "update":
		c.Update(r.At, r.Update)
	case "probe":
		c.Probe(r.At, *r.Probe)
	case "leave":
		c.AgentEnded(r.At)
	case "return":
		c.AgentRestarted(r.At, r.Update)
	default:
		return fmt.Errorf("call %q is unknown", r.Call)
	}
	return nil
}
