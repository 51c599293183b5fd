package cluster

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Job is one run of a sweep with its expected cost.
type Job struct {
	Hash    string  // identifies the run
	Name    string  // for display
	Seconds float64 // expected CPU time on one core
	Bytes   int64   // expected largest resident memory, without that of the program itself
}

// Shard is one of the tasks into which a sweep is divided: number Index, from 0, of Of.
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

// File returns the name of the shard's file of results.
func (s Shard) File() string { return fmt.Sprintf("shard-%d-of-%d.jsonl", s.Index, s.Of) }

// AssignShards divides jobs among n shards, and returns each job's shard. The longest job goes first, each to the
// shard with the least work. The result depends on the jobs alone, so that every machine computes the same.
func AssignShards(jobs []Job, n int) []int {
	order := make([]int, len(jobs))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(jobWeight(jobs[b]), jobWeight(jobs[a])), cmp.Compare(jobs[a].Hash, jobs[b].Hash))
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
		work[least] += jobWeight(jobs[i])
	}
	return shards
}

// jobWeight is a job's weight when jobs are distributed. It is a whole number, because processors round differently.
func jobWeight(j Job) int64 { return max(1, int64(math.Round(j.Seconds*1000))) }

// Resources is the resources that one task requests from Slurm or Kubernetes.
type Resources struct {
	CPUs    int
	Seconds float64 // expected wall-clock time in seconds
	Bytes   int64
}

// How much more than the estimate a task asks for. Memory was estimated within 23 %, time up to 2.8 times too low.
const (
	memoryMargin = 1.5
	timeMargin   = 4
	minTime      = 300 // minimum time limit of a task, in seconds
)

// ResourcesFor returns the resources of the largest of n tasks on so many CPUs, each of which carries out one run at a
// time. program is the memory of the program itself, in bytes.
func ResourcesFor(jobs []Job, n, cpus int, program int64) Resources {
	need := Resources{CPUs: cpus, Seconds: minTime}
	of := AssignShards(jobs, n)
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
		need.Bytes = max(need.Bytes, int64(memoryMargin*float64(bytes)))
		need.Seconds = max(need.Seconds, timeMargin*max(seconds/float64(cpus), longest))
	}
	return need
}
