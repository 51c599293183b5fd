package collective

import (
	"fmt"
	"iter"
	"sync/atomic"
)

// Job is the state of a running collective: which messages a rank may post now. See the package comment.
type Job struct {
	spec     Spec
	plan     plan
	progress progress
	left     []messagesLeft // per rank
	open     atomic.Int64   // number of unfinished ranks
}

// messagesLeft counts the messages that a rank still waits for.
type messagesLeft struct{ in, out int32 }

// plan is a collective's schedule without its state.
type plan interface {
	// steps returns the number of steps.
	steps() int
	// sends calls emit for the messages that a rank sends in a step, in order of posting.
	sends(rank, step int, emit func(dst int, bytes int64))
	// messageCounts returns the total numbers of messages that a rank receives and sends.
	messageCounts(rank int) (in, out int)
	// begin returns new state.
	begin(ranks int) progress
	stepOrder
}

// stepOrder says at which of its levels a rank posts: the messages of step s at level s.
type stepOrder interface {
	// levels returns the number of levels of a rank.
	levels() int
	// awaits returns the level at which a receiver waits for the messages of a step.
	awaits(step int) int
	// previous returns the level that a rank must have reached before a level; noLevel: none.
	previous(rank, level int) int
}

const noLevel = -1

// progress is the state of a plan. Its methods call post for the steps whose sends a rank can post now.
type progress interface {
	start(rank int, post func(rank, step int))
	received(rank, src, step int, post func(rank, step int))
}

// New returns a job, or the error of [Spec.Validate].
func New(s Spec) (*Job, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	j := &Job{spec: s, plan: s.plan(), left: make([]messagesLeft, s.Ranks)}
	if n := j.plan.steps(); n > MaxSteps {
		return nil, fmt.Errorf("%w: %d steps; at most %d, so use fewer ranks or another algorithm", ErrSpec, n, MaxSteps)
	}
	j.progress = j.plan.begin(s.Ranks)
	for r := range j.left {
		in, out := j.plan.messageCounts(r)
		j.left[r] = messagesLeft{int32(in), int32(out)}
		if in+out > 0 {
			j.open.Add(1)
		}
	}
	return j, nil
}

// Spec returns the job's spec.
func (j *Job) Spec() Spec { return j.spec }

// Start begins the job on all ranks, in rank order.
func (j *Job) Start(emit func(Send)) {
	for r := range j.spec.Ranks {
		j.StartRank(r, emit)
	}
}

// StartRank begins the job on one rank, for ranks that do not begin together. A rank accepts messages before it has
// begun.
func (j *Job) StartRank(rank int, emit func(Send)) {
	j.progress.start(rank, j.poster(emit))
}

// Received reports that a message has arrived whole, once, and calls emit for the messages that its receiver posts
// now. An error, for an id that is not of this job or one message too many, means that the caller's transport is at
// fault.
func (j *Job) Received(id ID, emit func(Send)) error {
	if err := j.check(id); err != nil {
		return err
	}
	l := &j.left[id.Dst()]
	if l.in == 0 {
		return fmt.Errorf("collective: rank %d received %v after all its messages; deliver each once", id.Dst(), id)
	}
	l.in--
	j.countIfDone(l)
	j.progress.received(id.Dst(), id.Src(), id.Step(), j.poster(emit))
	return nil
}

// Sent reports that the sender of a message has its last acknowledgement. The error is as in [Job.Received].
func (j *Job) Sent(id ID) error {
	if err := j.check(id); err != nil {
		return err
	}
	l := &j.left[id.Src()]
	if l.out == 0 {
		return fmt.Errorf("collective: rank %d sent %v after all its messages; report each once", id.Src(), id)
	}
	l.out--
	j.countIfDone(l)
	return nil
}

func (j *Job) check(id ID) error {
	if id.Job() != j.spec.Job || id.Step() >= j.plan.steps() || id.Src() >= j.spec.Ranks || id.Dst() >= j.spec.Ranks {
		return fmt.Errorf("collective: %v is no message of job %d", id, j.spec.Job)
	}
	return nil
}

func (j *Job) countIfDone(l *messagesLeft) {
	if *l == (messagesLeft{}) {
		j.open.Add(-1)
	}
}

// Done reports whether a rank has received all its messages and has the acknowledgements of all that it sends.
func (j *Job) Done(rank int) bool { return j.left[rank] == messagesLeft{} }

// Finished reports whether all ranks are done.
func (j *Job) Finished() bool { return j.open.Load() == 0 }

// Phases returns the number of steps of the job. A rank posts its sends of a step once it has received everything
// that an earlier step sends it (in a double binary tree: steps 0 and 1 sum towards the roots, 2 and 3 return the
// sums).
func (j *Job) Phases() int { return j.plan.steps() }

// Levels returns the number of levels of a rank. A rank reaches a level once it has reached [Job.Previous] and has
// received all messages that the level [Job.Awaits]; there it posts the messages of the step of the same number. The
// last level may have none.
func (j *Job) Levels() int { return j.plan.levels() }

// Awaits returns the level at which the receiver of a message needs it: see [Job.Levels].
func (j *Job) Awaits(s Send) int { return j.plan.awaits(s.Step) }

// Previous returns the level that a rank reaches before a level; ok is false if it starts there.
func (j *Job) Previous(rank, level int) (previous int, ok bool) {
	previous = j.plan.previous(rank, level)
	return previous, previous != noLevel
}

// Traffic returns all messages of one phase, by sender, whether posted or not.
func (j *Job) Traffic(phase int) iter.Seq[Send] {
	return func(yield func(Send) bool) {
		more := true
		for r := 0; r < j.spec.Ranks && more; r++ {
			j.plan.sends(r, phase, func(dst int, bytes int64) {
				more = more && yield(j.send(r, phase, dst, bytes))
			})
		}
	}
}

// Messages returns the number of messages of all ranks, without listing them.
func (j *Job) Messages() (n int64) {
	for r := range j.spec.Ranks {
		_, out := j.plan.messageCounts(r)
		n += int64(out)
	}
	return n
}

// Rank returns all messages that a rank sends, whether posted or not.
func (j *Job) Rank(rank int) iter.Seq[Send] {
	return func(yield func(Send) bool) {
		more := true
		for step := 0; step < j.plan.steps() && more; step++ {
			j.plan.sends(rank, step, func(dst int, bytes int64) {
				more = more && yield(j.send(rank, step, dst, bytes))
			})
		}
	}
}

// TotalBytes returns the payload of all messages of the job.
func (j *Job) TotalBytes() int64 {
	sum := int64(0)
	for p := range j.Phases() {
		for s := range j.Traffic(p) {
			sum += s.Bytes
		}
	}
	return sum
}

func (j *Job) poster(emit func(Send)) func(rank, step int) {
	return func(rank, step int) {
		j.plan.sends(rank, step, func(dst int, bytes int64) { emit(j.send(rank, step, dst, bytes)) })
	}
}

func (j *Job) send(src, step, dst int, bytes int64) Send {
	return Send{ID: newID(j.spec.Job, step, src, dst), Src: src, Dst: dst, Step: step, Bytes: bytes}
}
