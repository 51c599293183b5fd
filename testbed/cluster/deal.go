package cluster

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Job is one run as its cost counts.
type Job struct {
	Hash    string  // of the run
	Name    string  // for people
	Seconds float64 // of one core, estimated
	Bytes   int64   // resident at most, estimated; without the program itself
}

// Shard is task Index, counted from 0, of Of tasks.
type Shard struct{ Index, Of int }

// ParseShard reads I/N, as in 0/8.
func ParseShard(text string) (Shard, error) {
	index, of, ok := strings.Cut(text, "/")
	i, err := strconv.Atoi(index)
	n, err2 := strconv.Atoi(of)
	if !ok || err != nil || err2 != nil || n < 1 || n > maxShards || i < 0 || i >= n {
		return Shard{}, fmt.Errorf("%q is not I/N; write 0/8 for the first of eight tasks, and 7/8 for the last", text)
	}
	return Shard{i, n}, nil
}

// maxShards is more than an array of Slurm's has by default.
const maxShards = 100_000

// String returns I/N.
func (s Shard) String() string { return fmt.Sprintf("%d/%d", s.Index, s.Of) }

// File is the name of the shard's file of results.
func (s Shard) File() string { return fmt.Sprintf("shard-%d-of-%d.jsonl", s.Index, s.Of) }

// Deal returns which shard of n each job belongs to. The longest job goes first, each to the shard with the least work so
// far. The result depends on the jobs alone: every machine finds the same.
func Deal(jobs []Job, n int) []int {
	order := make([]int, len(jobs))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(milliseconds(jobs[b]), milliseconds(jobs[a])), cmp.Compare(jobs[a].Hash, jobs[b].Hash))
	})
	shards := make([]int, len(jobs))
	work := make([]int64, n)
	for _, i := range order {
		least := 0
		for s := range work {
			if work[s] < work[least] {
				least = s
			}
		}
		shards[i] = least
		work[least] += milliseconds(jobs[i])
	}
	return shards
}

// milliseconds is what a job counts when jobs are dealt. Whole numbers, since processors differ in how they round.
func milliseconds(j Job) int64 { return max(1, int64(math.Round(j.Seconds*1000))) }

// Need is what one task asks its engine for.
type Need struct {
	CPUs    int
	Seconds float64 // of wall time
	Bytes   int64
}

// How much more than the estimate a task asks for. Memory was estimated within 23 %, time up to 2.8 times too low.
const (
	sparedMemory = 1.5
	sparedTime   = 4
	leastTime    = 300 // seconds
)

// Needs returns what the largest of n tasks needs on so many CPUs, each of which carries out one run at a time. program
// is the memory of the program itself, in bytes.
func Needs(jobs []Job, n, cpus int, program int64) Need {
	need := Need{CPUs: cpus, Seconds: leastTime}
	of := Deal(jobs, n)
	for s := range n {
		var sizes []int64
		seconds, longest := 0.0, 0.0
		for i, j := range jobs {
			if of[i] == s {
				sizes = append(sizes, j.Bytes)
				seconds, longest = seconds+j.Seconds, max(longest, j.Seconds)
			}
		}
		slices.SortFunc(sizes, func(a, b int64) int { return cmp.Compare(b, a) })
		bytes := program
		for _, b := range sizes[:min(cpus, len(sizes))] {
			bytes += b
		}
		need.Bytes = max(need.Bytes, int64(sparedMemory*float64(bytes)))
		need.Seconds = max(need.Seconds, sparedTime*max(seconds/float64(cpus), longest))
	}
	return need
}
