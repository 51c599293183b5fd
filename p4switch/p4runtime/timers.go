package p4runtime

import (
	"math"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"

	"github.com/ethereal-fabric/ethereal/internal/heap"
	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

// idleTimer is the time at which to check an entry.
type idleTimer struct {
	at    int64 // data-plane ns
	seq   int   // entry.idleSeq when it was set
	order uint64
	t     *tableState
	e     *entry
}

// idleQueue is a heap of timers. A timer is stale and skipped if its entry is gone or was set again.
type idleQueue struct {
	timers heap.Heap[idleTimer]
	order  uint64 // orders timers of equal time by their setting
	full   int    // number of timers at which stale ones are removed
}

// Before orders timers by time, then as they were set.
func (x idleTimer) Before(o idleTimer) bool { return x.at < o.at || x.at == o.at && x.order < o.order }

func (q *idleQueue) isStale(i int) bool {
	x := &q.timers[i]
	return x.e.deleted || x.seq != x.e.idleSeq
}

// removeStale removes stale timers: each modification of an entry leaves one.
func (q *idleQueue) removeStale() {
	live := q.timers[:0]
	for i := range q.timers {
		if !q.isStale(i) {
			live = append(live, q.timers[i])
		}
	}
	clear(q.timers[len(live):])
	q.timers = live
	q.timers.Init()
	q.full = max(1024, 2*len(live))
}

// armIdle sets the timer of an entry, or removes it if the entry has no timeout.
func (p *pipeline) armIdle(t *tableState, e *entry) {
	e.idleSeq++
	if e.idleNs > 0 {
		p.setTimer(t, e, rpc.AddTime(e.idleFrom, e.idleNs))
	}
}

func (p *pipeline) setTimer(t *tableState, e *entry, at int64) {
	if len(p.idle.timers) >= p.idle.full {
		p.idle.removeStale()
	}
	p.idle.order++
	p.idle.timers.Push(idleTimer{at: at, seq: e.idleSeq, order: p.idle.order, t: t, e: e})
	p.core.reportDeadline()
}

func (p *pipeline) lastHit(t *tableState, e *entry) (int64, error) {
	p.core.plane.lock()
	defer p.core.plane.unlock()
	return p.sw.LastHit(t.tid, e.handle)
}

// timesSinceHit returns the time since entries were last hit, or at the earliest made.
func (p *pipeline) timesSinceHit(t *tableState, block []*entry) ([]int64, error) {
	out := make([]int64, len(block))
	p.core.plane.lock()
	defer p.core.plane.unlock()
	for i, e := range block {
		hit, err := p.sw.LastHit(t.tid, e.handle)
		if err != nil {
			return nil, fromSwitch(err)
		}
		out[i] = max(p.core.dataplaneNow()-max(hit, e.idleFrom), 0)
	}
	return out, nil
}

// expireIdle notifies controllers of entries without hits for their timeout.
func (p *pipeline) expireIdle(now int64) {
	notes := map[*tableState]*p4.IdleTimeoutNotification{}
	var order []*tableState
	for len(p.idle.timers) > 0 && (p.idle.isStale(0) || p.idle.timers[0].at <= now) {
		x := p.idle.timers.Pop()
		if x.e.deleted || x.seq != x.e.idleSeq {
			continue
		}
		hit, err := p.lastHit(x.t, x.e)
		if err != nil {
			continue
		}
		if due := rpc.AddTime(max(hit, x.e.idleFrom), x.e.idleNs); due > now {
			p.setTimer(x.t, x.e, due)
			continue
		}
		x.e.idleFrom = now
		p.setTimer(x.t, x.e, rpc.AddTime(now, x.e.idleNs))
		n := notes[x.t]
		if n == nil {
			n = &p4.IdleTimeoutNotification{Timestamp: p.core.cfg.Epoch + now}
			notes[x.t] = n
			order = append(order, x.t)
		}
		n.TableEntry = append(n.TableEntry, p.numbersToNames(&p4.Entity{Entity: &p4.Entity_TableEntry{TableEntry: &p4.TableEntry{
			TableId: x.t.id, Match: x.t.matchOf(x.e), Priority: x.e.priority,
			ControllerMetadata: x.e.cookie, Metadata: x.e.metadata, IdleTimeoutNs: x.e.idleNs,
		}}}).GetTableEntry())
	}
	for _, t := range order {
		p.core.stats.IdleNotification++
		p.core.toPrimaries(t.base(), &p4.StreamMessageResponse{
			Update: &p4.StreamMessageResponse_IdleTimeoutNotification{IdleTimeoutNotification: notes[t]}})
	}
}

// Advance processes what is due at the time now (ns since the Unix epoch): it sends digest lists whose time-out has
// expired, and reports idle table entries.
func (c *Core) Advance(now int64) {
	p := c.live
	if p == nil {
		return
	}
	for _, ds := range p.digests.list {
		st := p.learning[ds.id]
		if st == nil {
			continue
		}
		st.expireLists(now)
		if len(st.buffer) > 0 && now-st.first >= st.config.GetMaxTimeoutNs() {
			p.flushDigest(st, now)
		}
	}
	p.expireIdle(now - c.cfg.Epoch)
}

// NextDeadline returns when to call Advance next (ns since the Unix epoch), and false if nothing is pending.
// Packets and writes may move it nearer.
func (c *Core) NextDeadline() (int64, bool) {
	p := c.live
	if p == nil {
		return 0, false
	}
	next, ok := int64(math.MaxInt64), false
	for _, st := range p.learning {
		if len(st.buffer) > 0 {
			next, ok = min(next, rpc.AddTime(st.first, st.config.GetMaxTimeoutNs())), true
		}
	}
	for len(p.idle.timers) > 0 && p.idle.isStale(0) {
		p.idle.timers.Pop()
	}
	if len(p.idle.timers) > 0 {
		at := p.idle.timers[0].at
		if c.cfg.Epoch > 0 {
			at = rpc.AddTime(at, c.cfg.Epoch)
		} else {
			at += c.cfg.Epoch
		}
		next, ok = min(next, at), true
	}
	return next, ok
}
