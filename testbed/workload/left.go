package workload

import (
	"math"
	"slices"
)

// expected is what a rank receives from other servers.
type expected struct {
	ended int64 // bytes of operations that have ended
	begun []begunOp
}

// begunOp is an operation that has begun and not ended.
type begunOp struct {
	op    int
	bytes int64 // bytes that its rank receives in it
}

// CountArrivals makes the runner count what ranks receive from other servers, for LeastLeft. crosses is as in
// [NetworkState]. It reports false, and counts nothing, if a collective has messages both within and between servers,
// or a rank that only sends: nothing says when that rank is done.
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
		if slices.Contains(received[i], 0) {
			return false
		}
	}
	r.received, r.expected = received, make([]expected, len(r.waits))
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
	e := &r.expected[rank]
	left := int64(math.MaxInt64)
	for _, b := range e.begun {
		// All that came may belong to this operation.
		left = min(left, b.bytes-(received-e.ended))
	}
	return left
}

// Steps returns the number of collectives' operations that have begun or ended.
func (r *Runner) Steps() int { return r.steps }

// expectArrivals records that a rank's operation of a collective begins by messages.
func (r *Runner) expectArrivals(rank, o, local int) {
	r.steps++
	if i := r.instanceOf[rank][o]; r.expected != nil && r.received[i] != nil {
		e := &r.expected[rank]
		e.begun = append(e.begun, begunOp{o, r.received[i][local]})
	}
}

// endArrivals records that an operation ends, also one that expects nothing.
func (r *Runner) endArrivals(rank, o int) {
	r.steps++
	if r.expected == nil {
		return
	}
	e := &r.expected[rank]
	if i := slices.IndexFunc(e.begun, func(b begunOp) bool { return b.op == o }); i >= 0 {
		e.ended += e.begun[i].bytes
		e.begun = slices.Delete(e.begun, i, i+1)
	}
}
