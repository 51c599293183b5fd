package workload

import (
	"errors"
	"fmt"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// ErrProgram is wrapped by every error about a program's content.
var ErrProgram = errors.New("workload: bad program")

// Kind is the kind of an [Op].
type Kind uint8

// Kinds of operation.
const (
	Compute    Kind = iota // a computation, which takes Duration
	Collective             // a collective of the ranks of Group
	Send                   // sends Bytes to Peer
	Recv                   // receives Bytes from Peer
)

// Op is an operation of one rank.
type Op struct {
	Kind     Kind
	After    []int       // indices of operations of the same rank that must be done first
	Duration fabric.Time // for Compute: how long it takes
	// for Compute: the unit that carries it out, one computation at a time; 0: any number at once
	Unit int `json:",omitempty"`

	Group     []int  // for Collective: its ranks, in the order of the algorithm
	What      string // for Collective: a kind of package collective
	Algorithm string // for Collective: an algorithm of that kind; empty: the kind's default
	Bytes     int64  // for Collective as in [collective.Spec]; for Send and Recv the message
	Peer      int    // for Send and Recv: the other rank
	Tag       uint64 // for Send and Recv: both have the same

	// Raises is an event of the program, raised when the operation ends; "": none. An operation with Awaits begins once
	// the event of this name has been raised Times times, by whatever ranks.
	Raises string `json:",omitempty"`
	Awaits string `json:",omitempty"`
	Times  int    `json:",omitempty"`

	Seed uint64 `json:",omitempty"` // for Collective: seed of a permutation
	Part int    `json:",omitempty"` // number in [Program.Parts], from 1; 0: of none
}

// Program is a list of operations per rank: Ranks[r] are those of rank r. An operation waits only for earlier ones
// of its list.
type Program struct {
	Name  string
	Ranks [][]Op
	Parts []Part `json:",omitempty"` // operations whose duration is reported

	Random bool `json:"-"` // the program depends on the seed

	// notes are not exported, so that they are not part of a run's hash.
	notes []note
}

// Part is an operation that several ranks carry out together, whose duration is reported.
type Part struct {
	Job  int    // number of the job, from 0
	Step int    // repetition of the job, from 1
	Name string // such as "all-reduce 100MB"

	BusBytes float64 `json:"-"` // of a collective; see [collective.Spec.BusBytes]
}

// note is a kind of difference from the file.
type note struct {
	what  string
	count int
	first string
}

// Notes returns notes about differences from the file, for display.
func (p *Program) Notes() []string {
	var out []string
	for _, n := range p.notes {
		if n.count > 0 {
			n.what = fmt.Sprintf("%s: %d, the first: %s", n.what, n.count, n.first)
		}
		out = append(out, n.what)
	}
	return out
}

// collectiveInstance is a collective or message, with its operations.
type collectiveInstance struct {
	spec  collective.Spec
	group []int // rank of each local rank
	ops   []int // the operation of each local rank
	base  int   // of the steps' numbers in messages' IDs
	job   *collective.Job
}

// Largest number of steps of all instances together: the room in an ID.
const maxSteps = collective.MaxJobs * collective.MaxSteps

// link finds which operations belong together. index[r][o] is the instance of an operation, -1 for a computation.
func (p *Program) link() (all []*collectiveInstance, index [][]int, err error) {
	bad := func(r, o int, format string, args ...any) error {
		return fmt.Errorf("%w: %s: rank %d, operation %d: %s", ErrProgram, p.Name, r, o, fmt.Sprintf(format, args...))
	}
	type place struct {
		key string
		n   int
	}
	known := map[place]int{}
	index = make([][]int, len(p.Ranks))
	for r, ops := range p.Ranks {
		count := map[string]int{}
		index[r] = make([]int, len(ops))
		for o, op := range ops {
			index[r][o] = -1
			for _, a := range op.After {
				if a < 0 || a >= o {
					return nil, nil, bad(r, o, "waits for operation %d, which is not an earlier one", a)
				}
			}
			var key string
			var group []int
			spec := collective.Spec{Kind: op.What, Algorithm: op.Algorithm, Bytes: op.Bytes, Seed: op.Seed}
			switch op.Kind {
			case Compute:
				if op.Duration < 0 {
					return nil, nil, bad(r, o, "a duration of %v; write 0 or more", op.Duration)
				}
				continue
			case Collective:
				group = op.Group
				key = fmt.Sprint("c", group)
				spec.Ranks = len(group)
			case Send, Recv:
				group = []int{r, op.Peer}
				if op.Kind == Recv {
					group = []int{op.Peer, r}
				}
				key = fmt.Sprint("m", group, op.Tag)
				spec = collective.Spec{Kind: collective.Incast, Ranks: 2, Target: 1, Bytes: op.Bytes}
			}
			local := -1
			for i, g := range group {
				if g < 0 || g >= len(p.Ranks) {
					return nil, nil, bad(r, o, "names rank %d; there are %d", g, len(p.Ranks))
				}
				if g == r {
					local = i
				}
			}
			if local < 0 {
				return nil, nil, bad(r, o, "is of ranks %v, and not of its own", group)
			}
			if err := spec.Validate(); err != nil {
				return nil, nil, bad(r, o, "%v", err)
			}
			at := place{key, count[key]}
			count[key]++
			i, ok := known[at]
			if !ok {
				i = len(all)
				known[at] = i
				all = append(all, &collectiveInstance{spec: spec, group: group, ops: make([]int, len(group))})
				for l := range all[i].ops {
					all[i].ops[l] = -1
				}
			}
			in := all[i]
			if in.spec != spec {
				return nil, nil, bad(r, o, "is %+v, where another rank has %+v", spec, in.spec)
			}
			if in.ops[local] >= 0 {
				return nil, nil, bad(r, o, "a rank is given twice in %v", group)
			}
			in.ops[local] = o
			index[r][o] = i
		}
	}
	steps := 0
	for _, in := range all {
		for l, o := range in.ops {
			if o < 0 {
				return nil, nil, fmt.Errorf("%w: %s: rank %d has no part in a %s of ranks %v that others have", ErrProgram, p.Name, in.group[l], in.spec.Kind, in.group)
			}
		}
		if in.job, err = collective.New(in.spec); err != nil {
			return nil, nil, fmt.Errorf("%w: %s: %w", ErrProgram, p.Name, err)
		}
		in.base = steps
		if steps += in.job.Phases(); steps > maxSteps {
			return nil, nil, fmt.Errorf("%w: %s: more than %d steps of collectives; use fewer or smaller ones", ErrProgram, p.Name, maxSteps)
		}
	}
	return all, index, nil
}

// Traffic returns all messages of the program, in no particular order. Senders and receivers are ranks of the program.
func (p *Program) Traffic() ([]collective.Send, error) {
	all, _, err := p.link()
	if err != nil {
		return nil, err
	}
	var out []collective.Send
	for _, in := range all {
		for phase := range in.job.Phases() {
			for s := range in.job.Traffic(phase) {
				out = append(out, in.global(s))
			}
		}
	}
	return out, nil
}

// LongestCompute returns the longest computation of a rank, along operations that wait for each other or that one unit
// carries out: no network makes the program faster.
func (p *Program) LongestCompute() fabric.Time {
	longest := fabric.Time(0)
	for _, ops := range p.Ranks {
		end, units := make([]fabric.Time, len(ops)), map[int]fabric.Time{}
		for o, op := range ops {
			for _, a := range op.After {
				end[o] = max(end[o], end[a])
			}
			if op.Kind == Compute {
				end[o] += op.Duration
				if op.Unit != 0 {
					units[op.Unit] += op.Duration
					longest = max(longest, units[op.Unit])
				}
			}
			longest = max(longest, end[o])
		}
	}
	return longest
}

// Only returns the program of the operations whose parts are in [from, to), without what they wait for before.
func (p *Program) Only(from, to int) *Program {
	out := &Program{Name: p.Name, Ranks: make([][]Op, len(p.Ranks))}
	for r, ops := range p.Ranks {
		place := map[int]int{}
		for o, op := range ops {
			if op.Part <= from || op.Part > to {
				continue
			}
			var after []int
			for _, a := range op.After {
				if at, ok := place[a]; ok {
					after = append(after, at)
				}
			}
			place[o] = len(out.Ranks[r])
			op.After = after
			out.Ranks[r] = append(out.Ranks[r], op)
		}
	}
	return out
}

// global converts a message of the instance's job to one of the program.
func (in *collectiveInstance) global(s collective.Send) collective.Send {
	step := in.base + s.Step
	s.Src, s.Dst, s.Step = in.group[s.Src], in.group[s.Dst], step
	s.ID = collective.MakeID(uint8(step/collective.MaxSteps), step%collective.MaxSteps, s.Src, s.Dst)
	return s
}
