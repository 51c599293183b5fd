package collective

import "fmt"

// ID identifies one message of a run: its job, step, sender and receiver. All messages of a run have different IDs
// if its jobs have different numbers.
type ID uint64

// Bits of an ID: job 8, step 20, source 18, destination 18.
const (
	rankBits = 18
	stepBits = 20
	jobBits  = 8
)

// Limits that follow from the bits of an [ID].
const (
	MaxRanks = 1 << rankBits
	MaxSteps = 1 << stepBits
	MaxJobs  = 1 << jobBits
)

func newID(job uint8, step, src, dst int) ID {
	return ID(job)<<(stepBits+2*rankBits) | ID(step)<<(2*rankBits) | ID(src)<<rankBits | ID(dst)
}

// Job returns the job's number, [Spec].Job.
func (id ID) Job() uint8 { return uint8(id >> (stepBits + 2*rankBits)) }

// Step returns the message's step, from 0.
func (id ID) Step() int { return int(id >> (2 * rankBits) & (MaxSteps - 1)) }

// Src returns the sending rank.
func (id ID) Src() int { return int(id >> rankBits & (MaxRanks - 1)) }

// Dst returns the receiving rank.
func (id ID) Dst() int { return int(id & (MaxRanks - 1)) }

// MakeID returns the id of a message, for callers that number messages of several jobs themselves. All must be
// within the limits above.
func MakeID(job uint8, step, src, dst int) ID { return newID(job, step, src, dst) }

// String prints the id as "job0/step3/4-12".
func (id ID) String() string {
	return fmt.Sprintf("job%d/step%d/%d-%d", id.Job(), id.Step(), id.Src(), id.Dst())
}

// Send is one message that a rank posts: it names the receiver.
type Send struct {
	ID    ID
	Src   int   // sending rank
	Dst   int   // receiving rank, another one
	Step  int   // of the algorithm, from 0
	Bytes int64 // of payload, at least 1
}
