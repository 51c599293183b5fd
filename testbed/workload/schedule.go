package workload

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// Schedule is the order of a program's messages and computations. Its nodes are moments, numbered from 0. A moment
// comes when all messages and waits that lead to it are over.
type Schedule struct {
	Moments  int
	Messages []Message
	Waits    []Wait
}

// Message is a message of a [Schedule].
type Message struct {
	collective.Send
	Posted   int // the moment at which its sender posts it
	Received int // the moment that waits for its arrival
	Acked    int // the moment that waits for its last acknowledgement; -1: none
}

// Wait is a computation, or, without duration, an order of two moments.
type Wait struct {
	From, To int
	Duration fabric.Time
}

// NewSchedule returns the schedule of a collective. Each rank begins at a time, and posts each message after a delay.
func NewSchedule(j *collective.Job, begins, lags func(rank int) fabric.Time) Schedule {
	s := Schedule{Moments: 1} // the start
	s.add(schedulePart{
		job:    j,
		global: func(send collective.Send) collective.Send { return send },
		start:  func(rank int) Wait { return Wait{From: 0, Duration: begins(rank)} },
		end:    func(int) int { return -1 },
		lags:   lags,
	})
	return s
}

// raisers returns the number of operations that raise each event.
func (p *Program) raisers() map[string]int {
	n := map[string]int{}
	for _, ops := range p.Ranks {
		for _, op := range ops {
			if op.Raises != "" {
				n[op.Raises]++
			}
		}
	}
	return n
}

// Schedule returns the schedule of the program. An operation that awaits an event whose raisers are not all needed
// waits for nothing in it, as the schedule gives lower bounds. Errors wrap [ErrProgram].
func (p *Program) Schedule() (Schedule, error) {
	all, _, err := p.link()
	if err != nil {
		return Schedule{}, err
	}
	// An operation begins at one moment and ends at the next.
	var s Schedule
	first := make([]int, len(p.Ranks))
	events, raisers := map[string]int{}, p.raisers() // events that somebody waits for all raisers of: their moments
	for _, ops := range p.Ranks {
		for _, op := range ops {
			if _, known := events[op.Awaits]; !known && op.Awaits != "" && op.Times == raisers[op.Awaits] {
				events[op.Awaits] = s.Moments
				s.Moments++
			}
		}
	}
	for r, ops := range p.Ranks {
		first[r] = s.Moments
		for o, op := range ops {
			begin := s.Moments + 2*o
			s.wait(begin, begin+1, op.Duration) // 0, except of a computation
			for _, a := range op.After {
				s.wait(s.Moments+2*a+1, begin, 0)
			}
			if m, ok := events[op.Raises]; ok {
				s.wait(begin+1, m, 0)
			}
			if m, ok := events[op.Awaits]; ok && op.Times == raisers[op.Awaits] {
				s.wait(m, begin, 0)
			}
		}
		s.Moments += 2 * len(ops)
	}
	for _, in := range all {
		begin := func(local int) int { return first[in.group[local]] + 2*in.ops[local] }
		s.add(schedulePart{
			job: in.job, global: in.global,
			start: func(local int) Wait { return Wait{From: begin(local)} },
			end:   func(local int) int { return begin(local) + 1 },
			lags:  func(int) fabric.Time { return 0 },
		})
	}
	return s, nil
}

func (s *Schedule) wait(from, to int, d fabric.Time) { s.Waits = append(s.Waits, Wait{from, to, d}) }

// schedulePart is a collective of a schedule. Ranks are the collective's.
type schedulePart struct {
	job    *collective.Job
	global func(collective.Send) collective.Send // the message with the schedule's ranks
	start  func(rank int) Wait                   // that ends when the rank begins
	end    func(rank int) int                    // the moment that waits for the rank's end; -1: none
	lags   func(rank int) fabric.Time            // before the rank posts a message
}

func (s *Schedule) add(p schedulePart) {
	ranks, levels := p.job.Spec().Ranks, p.job.Levels()
	base, posted := s.Moments, make([]int, ranks*levels)
	s.Moments += len(posted)
	for r := range ranks {
		last := make([]bool, levels) // levels that precede no other
		for l := range levels {
			m := base + l*ranks + r
			last[l] = true
			if previous, ok := p.job.Previous(r, l); ok {
				s.wait(base+previous*ranks+r, m, 0)
				last[previous] = false
			} else {
				start := p.start(r)
				s.wait(start.From, m, start.Duration)
			}
			posted[l*ranks+r] = m
		}
		if end := p.end(r); end >= 0 {
			for l := range levels {
				if last[l] {
					s.wait(base+l*ranks+r, end, 0)
				}
			}
		}
	}
	for step := range p.job.Phases() {
		for send := range p.job.Traffic(step) {
			level := step*ranks + send.Src
			if lag := p.lags(send.Src); lag > 0 && posted[level] == base+level {
				s.wait(base+level, s.Moments, lag)
				posted[level] = s.Moments
				s.Moments++
			}
			s.Messages = append(s.Messages, Message{
				Send: p.global(send), Posted: posted[level],
				Received: base + p.job.Awaits(send)*ranks + send.Dst, Acked: p.end(send.Src),
			})
		}
	}
}
