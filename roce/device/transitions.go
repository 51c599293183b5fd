//go:build linux

package device

import (
	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// transition is a change of a queue pair's state, or none.
type transition struct{ from, to uint64 }

// attributes are those that a transition needs, and those that it takes besides.
type attributes struct{ needed, optional uint64 }

// The specification's state transition properties (InfiniBand volume 1, 11.2.5.2). Every state may change to RESET and
// ERR, with the state alone. SQD is not there.
var (
	rcTransitions = map[transition]attributes{
		{qpsReset, qpsInit}: {maskPKey | maskPort | maskAccess, 0},
		{qpsInit, qpsInit}:  {0, maskPKey | maskPort | maskAccess},
		{qpsInit, qpsRTR}: {
			maskAV | maskPathMTU | maskDestQPN | maskRQPSN | maskMaxDest | maskMinRNR, maskAltPath | maskAccess | maskPKey,
		},
		{qpsRTR, qpsRTS}: {
			maskTimeout | maskRetry | maskRNRRetry | maskSQPSN | maskMaxRD,
			maskCurrent | maskAltPath | maskAccess | maskMinRNR | maskPathMig,
		},
		{qpsRTS, qpsRTS}: {0, maskCurrent | maskAltPath | maskAccess | maskMinRNR | maskPathMig},
	}
	udTransitions = map[transition]attributes{
		{qpsReset, qpsInit}: {maskPKey | maskPort | maskQKey, 0},
		{qpsInit, qpsInit}:  {0, maskPKey | maskPort | maskQKey},
		{qpsInit, qpsRTR}:   {0, maskPKey | maskQKey},
		{qpsRTR, qpsRTS}:    {maskSQPSN, maskCurrent | maskQKey},
		{qpsRTS, qpsRTS}:    {0, maskCurrent | maskQKey},
	}
)

// allows reports whether a queue pair may change its state to next with the attributes of a mask.
func (q *queuePair) allows(next, mask uint64) bool {
	mask &^= maskState
	if next == qpsReset || next == qpsErr {
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
	if mask&maskState != 0 {
		next = a[argState]
	}
	if !q.allows(next, mask) || mask&maskMaxRD != 0 && a[argMaxRDAtomic] > maxReads ||
		mask&maskMaxDest != 0 && a[argMaxDestRDAtomic] > maxReads {
		return unix.EINVAL
	}
	if mask&maskAV != 0 {
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
	set(maskAccess, &q.access, argAccess, 1<<20)
	set(maskTimeout, &q.timeout, argTimeout, 31)
	set(maskRetry, &q.retries, argRetryCnt, 7)
	set(maskRNRRetry, &q.rnr, argRNRRetry, 7)
	set(maskMinRNR, &q.minRNR, argMinRNRTimer, 31)
	set(maskMaxRD, &q.maxReads, argMaxRDAtomic, maxReads)
	set(maskMaxDest, &q.maxDest, argMaxDestRDAtomic, maxReads)
	set32 := func(bit uint64, v *uint32, arg int) {
		if mask&bit != 0 {
			*v = uint32(a[arg])
		}
	}
	set32(maskQKey, &q.qkey, argQKey)
	set32(maskDestQPN, &q.peer, argDestQPN)
	set32(maskRQPSN, &q.rqPSN, argRQPSN)
	set32(maskSQPSN, &q.sqPSN, argSQPSN)
	if next != q.state {
		q.enter(now, next)
		q.n.touch(q)
	}
	return nil
}

// enter changes a queue pair's state.
func (q *queuePair) enter(now fabric.Time, next uint64) {
	switch next {
	case qpsReset:
		q.reset(now)
	case qpsErr:
		q.fail(now, flushErr)
		q.state = qpsErr
	case qpsRTR:
		q.state = next
		if q.typ == qptRC {
			q.inbound.beginAt(q.rqPSN)
			q.responses.begin(q.rqPSN, streamKey(kindResponses, q.peer&0xffffff), q.dst)
		}
	case qpsRTS:
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
	// The program may go on posting: what waits now is what ends.
	waits := q.sq.waiting()
	q.sq.index += waits
	q.sq.release(taken + waits)
	waits = q.rq.waiting()
	q.rq.index += waits
	q.rq.release(waits)
	q.sent, q.reads, q.rnrAt, q.ackDue, q.msn, q.state, q.asked = nil, 0, 0, false, 0, qpsReset, false
}
