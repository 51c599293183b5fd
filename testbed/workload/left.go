package workload

import (
	"math"
	"slices"
)

// arrivals is what a rank receives from other servers.
type arrivals struct {
	ended int64 // bytes of operations that have ended
	begun []begunOp
}

// begunOp is an operation that has begun and not ended.
type begunOp struct {
	op    int
	bytes int64 // that its rank receives
}

// CountArrivals makes the runner count what ranks receive from other servers, for LeastLeft. crosses is as in
// [NetworkState]. It reports false, and counts nothing, if a collective has messages both within and between servers.
func (r *Runner) CountArrivals(crosses func(src, dst int) bool) bool {
	received := make([][]int64, len(r.instances))
	for i, in := range r.instances {
		if !in.crosses(crosses) {
			continue
		}
		for _, src := range in.group {
			for _, dst := range in.group {
				if src != dst && !crosses(src, dst) {
					return false
				}
			}
		}
		received[i] = in.received()
	}
	r.received, r.arrivals = received, make([]arrivals, len(r.waits))
	return true
}

// received returns how many bytes each local rank receives.
func (in *collectiveInstance) received() []int64 {
	bytes := make([]int64, len(in.group))
	for p := range in.job.Phases() {
		for s := range in.job.Traffic(p) {
			bytes[s.Dst] += s.Bytes
		}
	}
	return bytes
}

// LeastLeft returns how many bytes a rank that has received so many from other servers must receive at least before
// one of its operations that has begun can end; math.MaxInt64 if it waits for none.
func (r *Runner) LeastLeft(rank int, received int64) int64 {
	a := &r.arrivals[rank]
	left := int64(math.MaxInt64)
	for _, b := range a.begun {
		// All that came may belong to this operation.
		left = min(left, b.bytes-(received-a.ended))
	}
	return left
}

// Steps returns the number of collectives' operations that have begun or ended.
func (r *Runner) Steps() int { return r.steps }

// arrivalsBegin records that a rank's operation of a collective begins.
func (r *Runner) arrivalsBegin(rank, o, local int) {
	r.steps++
	if i := r.instanceOf[rank][o]; r.arrivals != nil && r.received[i] != nil {
		a := &r.arrivals[rank]
		a.begun = append(a.begun, begunOp{o, r.received[i][local]})
	}
}

// arrivalsEnd records that an operation ends.
func (r *Runner) arrivalsEnd(rank, o int) {
	r.steps++
	if r.arrivals == nil {
		return
	}
	a := &r.arrivals[rank]
	if i := slices.IndexFunc(a.begun, func(b begunOp) bool { return b.op == o }); i >= 0 {
		a.ended += a.begun[i].bytes
		a.begun = slices.Delete(a.begun, i, i+1)
	}
}
