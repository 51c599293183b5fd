//go:build linux

package device

import (
	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/device/uverbs"
)

// transition is a change of a queue pair's state, or none.
type transition struct{ from, to uint64 }

// attributes are those that a transition needs, and those that it takes besides.
type attributes struct{ needed, optional uint64 }

// The specification's state transition properties (InfiniBand volume 1, 11.2.5.2). Every state may change to RESET and
// ERR, with the state alone. SQD is not there.
var (
	rcTransitions = map[transition]attributes{
		{uverbs.QPSReset, uverbs.QPSInit}: {uverbs.MaskPKey | uverbs.MaskPort | uverbs.MaskAccess, 0},
		{uverbs.QPSInit, uverbs.QPSInit}:  {0, uverbs.MaskPKey | uverbs.MaskPort | uverbs.MaskAccess},
		{uverbs.QPSInit, uverbs.QPSRTR}: {
			uverbs.MaskRTR, uverbs.MaskAltPath | uverbs.MaskAccess | uverbs.MaskPKey,
		},
		{uverbs.QPSRTR, uverbs.QPSRTS}: {
			uverbs.MaskRTS,
			uverbs.MaskCurrent | uverbs.MaskAltPath | uverbs.MaskAccess | uverbs.MaskMinRNR | uverbs.MaskPathMig,
		},
		{uverbs.QPSRTS, uverbs.QPSRTS}: {
			0, uverbs.MaskCurrent | uverbs.MaskAltPath | uverbs.MaskAccess | uverbs.MaskMinRNR | uverbs.MaskPathMig,
		},
	}
	udTransitions = map[transition]attributes{
		{uverbs.QPSReset, uverbs.QPSInit}: {uverbs.MaskPKey | uverbs.MaskPort | uverbs.MaskQKey, 0},
		{uverbs.QPSInit, uverbs.QPSInit}:  {0, uverbs.MaskPKey | uverbs.MaskPort | uverbs.MaskQKey},
		{uverbs.QPSInit, uverbs.QPSRTR}:   {0, uverbs.MaskPKey | uverbs.MaskQKey},
		{uverbs.QPSRTR, uverbs.QPSRTS}:    {uverbs.MaskSQPSN, uverbs.MaskCurrent | uverbs.MaskQKey},
		{uverbs.QPSRTS, uverbs.QPSRTS}:    {0, uverbs.MaskCurrent | uverbs.MaskQKey},
	}
)

// transitionAllowed reports whether a queue pair may change its state to next with the attributes of a mask.
func (q *queuePair) transitionAllowed(next, mask uint64) bool {
	mask &^= uverbs.MaskState
	if next == uverbs.QPSReset || next == uverbs.QPSErr {
		return mask == 0
	}
	table := rcTransitions
	if q.typ == qptUD {
		table = udTransitions
	}
	a, ok := table[transition{q.state, next}]
	return ok && mask&a.needed == a.needed && mask&^(a.needed|a.optional) == 0
}

// modify changes a queue pair's attributes, and its state.
func (q *queuePair) modify(now fabric.Time, a *[callArgs]uint64) error {
	mask, next := a[1], q.state
	if mask&uverbs.MaskState != 0 {
		next = a[argState]
	}
	if !q.transitionAllowed(next, mask) || mask&uverbs.MaskMaxRDAtomic != 0 && a[argMaxRDAtomic] > maxReads ||
		mask&uverbs.MaskMaxDestRDAtomic != 0 && a[argMaxDestRDAtomic] > maxReads {
		return unix.EINVAL
	}
	if mask&uverbs.MaskAV != 0 {
		dst, ok := q.n.cfg.Fabric.HostByAddr(addrOf(uint32(a[argDestAddr])))
		if !ok {
			return unix.EHOSTUNREACH
		}
		q.dst = dst
	}
	set := func(bit uint64, v *uint64, arg int, most uint64) {
		if mask&bit != 0 {
			*v = min(a[arg], most)
		}
	}
	set(uverbs.MaskAccess, &q.access, argAccess, 1<<20)
	set(uverbs.MaskTimeout, &q.timeout, argTimeout, 31)
	set(uverbs.MaskRetry, &q.retries, argRetryCnt, 7)
	set(uverbs.MaskRNRRetry, &q.rnr, argRNRRetry, 7)
	set(uverbs.MaskMinRNR, &q.minRNR, argMinRNRTimer, 31)
	set(uverbs.MaskMaxRDAtomic, &q.maxReads, argMaxRDAtomic, maxReads)
	set(uverbs.MaskMaxDestRDAtomic, &q.maxDest, argMaxDestRDAtomic, maxReads)
	set32 := func(bit uint64, v *uint32, arg int) {
		if mask&bit != 0 {
			*v = uint32(a[arg])
		}
	}
	set32(uverbs.MaskQKey, &q.qkey, argQKey)
	set32(uverbs.MaskDestQPN, &q.peer, argDestQPN)
	set32(uverbs.MaskRQPSN, &q.rqPSN, argRQPSN)
	set32(uverbs.MaskSQPSN, &q.sqPSN, argSQPSN)
	if next != q.state {
		q.enterState(now, next)
		q.n.touchQueuePair(q)
	}
	return nil
}

// enterState changes a queue pair's state.
func (q *queuePair) enterState(now fabric.Time, next uint64) {
	switch next {
	case uverbs.QPSReset:
		q.reset(now)
	case uverbs.QPSErr:
		q.failWith(now, flushErr)
		q.state = uverbs.QPSErr
	case uverbs.QPSRTR:
		q.state = next
		if q.typ == qptRC {
			q.inbound.beginAt(q.rqPSN)
			q.responses.begin(q.rqPSN, streamKey(kindResponses, q.peer&0xffffff), q.dst)
		}
	case uverbs.QPSRTS:
		q.state = next
		if q.typ == qptRC {
			q.requests.begin(q.sqPSN, streamKey(kindRequests, q.peer&0xffffff), q.dst)
			q.answers.beginAt(q.sqPSN)
		}
	default:
		q.state = next
	}
}

// reset ends what a queue pair has under way, without a report.
func (q *queuePair) reset(now fabric.Time) {
	q.n.closeStream(now, &q.requests)
	q.n.closeStream(now, &q.responses)
	q.inbound.close()
	q.answers.close()
	taken := uint32(len(q.sent))
	if q.generation++; q.gram != nil {
		q.gram = nil
		taken++
	}
	// The program may go on posting: what waits now is what ends.
	waits := q.sq.waiting()
	q.sq.index += waits
	q.sq.release(taken + waits)
	waits = q.rq.waiting()
	q.rq.index += waits
	q.rq.release(waits)
	q.sent, q.reads, q.rnrAt, q.ackDue, q.msn, q.state, q.asked = nil, 0, 0, false, 0, uverbs.QPSReset, false
}
