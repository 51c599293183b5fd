package p4rt

import (
	"time"

	"google.golang.org/grpc/codes"

	"github.com/ethereal-fabric/ethereal/controller/backoff"
)

// Phase is where a P4Runtime session with a switch stands.
type Phase uint8

// The phases. From Checking on the session is primary.
const (
	Waiting  Phase = iota // not connected; the next attempt is later
	Opening               // connecting, until the switch answers the bid for primary
	Backup                // another controller is primary; this one waits
	Bidding               // no controller is primary; a higher bid is sent
	Checking              // asking which P4 program the switch runs
	Pushing               // sending the controller's P4 program
	Reading               // phase: the tables are being read
	Serving               // the tables are known; updates are sent as they come
	Pausing               // an update was refused; the tables are read again after a wait
)

func (p Phase) String() string {
	return [...]string{"waiting", "opening", "backup", "bidding", "checking", "pushing", "reading", "serving", "pausing"}[p]
}

// Primary reports whether the session is the switch's primary.
func (p Phase) Primary() bool { return p >= Checking }

// MarshalText prints the phase's name.
func (p Phase) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// Step is the next action of a session.
type Step uint8

// The steps.
const (
	Idle  Step = iota // wait for messages, updates, or Due
	Open              // open the stream and bid to be primary
	Bid               // bid to be primary, on the open stream
	Check             // ask which P4 program the switch runs
	Push              // next step: install the P4 program (SetForwardingPipelineConfig)
	Read              // next step: read the tables
)

// Lifecycle decides what a P4Runtime session does next. It has no goroutine, socket or clock; chance returns random
// numbers from 0 to below 1 for jitter. It is not safe for concurrent use.
type Lifecycle struct {
	policy   backoff.Policy
	chance   func() float64
	own      uint64
	bid      ElectionID
	phase    Phase
	failures int
	due      time.Time // end of Waiting and Pausing
}

// NewLifecycle returns the lifecycle of a session that is to connect now. own is the controller's own number, above 0.
func NewLifecycle(own uint64, policy backoff.Policy, chance func() float64) *Lifecycle {
	return &Lifecycle{policy: policy, chance: chance, own: own, bid: ElectionID{Low: own}}
}

// Phase returns the present phase.
func (l *Lifecycle) Phase() Phase { return l.phase }

// Bid returns the election ID to send.
func (l *Lifecycle) Bid() ElectionID { return l.bid }

// Due returns when [Lifecycle.Tick] has something to do. ok is false if no timer runs.
func (l *Lifecycle) Due() (_ time.Time, ok bool) {
	return l.due, l.phase == Waiting || l.phase == Pausing
}

// Tick ends a wait whose time has passed.
func (l *Lifecycle) Tick(now time.Time) Step {
	switch {
	case now.Before(l.due):
	case l.phase == Waiting:
		l.phase = Opening
		return Open
	case l.phase == Pausing:
		l.phase = Reading
		return Read
	}
	return Idle
}

// Arbitrated processes the switch's report of who is primary: the code of an arbitration update's status, and the
// highest election id in it.
func (l *Lifecycle) Arbitrated(code codes.Code, highest ElectionID) Step {
	switch code {
	case codes.OK:
		if l.phase.Primary() {
			return l.resume()
		}
		l.phase = Checking
		return Check
	case codes.NotFound:
		// The primary is gone. Some targets promote the next one by themselves, others wait for a bid that is at
		// least as high as any before.
		if b := bidAbove(highest, l.own); l.bid.Compare(b) < 0 {
			l.bid = b
		}
		l.phase = Bidding
		return Bid
	}
	l.phase = Backup
	return Idle
}

// resume returns the step of the present phase, which an arbitration update without changes interrupted.
func (l *Lifecycle) resume() Step {
	switch l.phase {
	case Checking:
		return Check
	case Pushing:
		return Push
	case Reading:
		return Read
	}
	return Idle
}

// PipelineChecked records whether the switch runs our pipeline.
func (l *Lifecycle) PipelineChecked(same bool) Step {
	if same {
		l.phase = Reading
		return Read
	}
	l.phase = Pushing
	return Push
}

// PipelinePushed records that the switch accepted the pipeline.
func (l *Lifecycle) PipelinePushed() Step {
	l.phase = Reading
	return Read
}

// Reread asks for the tables to be read again.
func (l *Lifecycle) Reread() Step {
	l.phase = Reading
	return Read
}

// TablesRead records that the tables are known.
func (l *Lifecycle) TablesRead() { l.phase = Serving }

// UpdatesWritten records that all updates were carried out.
func (l *Lifecycle) UpdatesWritten() { l.failures = 0 }

// UpdateRefused records that the switch refused an update: the tables are no longer known.
func (l *Lifecycle) UpdateRefused(now time.Time) {
	l.phase = Pausing
	l.wait(now)
}

// StreamEnded records the end of the stream, and the gRPC code with which it ended.
func (l *Lifecycle) StreamEnded(now time.Time, code codes.Code) {
	if code == codes.InvalidArgument && (l.phase == Opening || l.phase == Bidding) {
		// The bid belongs to a live controller: to an earlier stream of ours whose end has not reached the switch
		// yet, or to a controller with our election id.
		l.bid = bidAbove(l.bid, l.own)
	}
	if l.phase == Backup || l.phase == Serving {
		l.failures = 0
	}
	l.phase = Waiting
	l.wait(now)
}

func (l *Lifecycle) wait(now time.Time) {
	l.failures++
	l.due = now.Add(l.policy.Wait(l.failures, l.chance()))
}
