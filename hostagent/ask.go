package hostagent

import (
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/heap"
)

// Ask is a path probe to send: a packet to host Dst with path label Label, whose answer takes the same path back. It
// travels in the control class, so that data do not delay it. Report its answer to [Core.Answered] with the same ID.
type Ask struct {
	ID    uint32 // number of the probe, 24 bits, which its answer repeats
	Dst   fabric.NodeID
	Label fabric.Label
}

// question is what a host asks one path: is it alive?
type question struct {
	hostPath
	state           questionState
	since           fabric.Time // asking: time of the first probe
	from            fabric.Time // asking: time of the first probe, or of the first one of the second time
	due             fabric.Time // time of the verdict; alive: of the next question at the earliest; dead: of the next probe
	round           uint8       // of questions without an answer to data in between, or of probes of the dead path
	secondTime      bool        // asking: for the second time, with more witnesses
	witnessAnswered bool        // asking: a witness is answered
	expired         bool        // the cause was a retransmission timer
	diedAt          fabric.Time // dead: time of the verdict
}

// questionState is what is known about a question's path. Questions that are asking or dead have an entry in
// questions.queue; dead ones are in questions.dead and counted in destination.foundDead and questions.deadPerUplink.
type questionState uint8

const (
	asking questionState = iota
	alive                // the path answered, or no path did
	dead                 // the path did not answer, and others did
)

const (
	probesPerQuestion = 2 // one alone may be lost on a link that loses some packets
	maxWitnesses      = 8
	maxRounds         = 6 // the time between questions doubles that often
	maxDeadRounds     = 8
	probeBurst        = 256 // maximum number of path probes sent at once
	probeRateShare    = 64  // probes take that part of the host's link at most
	probeFrameBytes   = 128 // length of a path probe in bytes, with framing
)

// questions finds paths that do not answer probes, and links that several such paths have in common. It has the open
// questions and the probes in flight.
type questions struct {
	*paths
	open           map[questionKey]*question
	queue          heap.Heap[dueQuestion]
	seq            uint64          // of the latest entry of queue
	probes         []probeInFlight // by ID, from first on
	first          uint32
	waiting        int             // of probes: those without an answer
	dead           []*question     // in order of their verdicts
	deadPerUplink  []int           // by uplink: dead paths
	lateAnswers    []uint8         // by uplink: how often an answer came after the verdict
	convictedLinks []fabric.LinkID // links known to be dead by several dead paths
	tat            fabric.Time     // theoretical arrival time of the rate limit of probes
	excess         fabric.RTT      // of probes' round trips, over those through the idle fabric
}

// dueQuestion is an entry of the heap of questions; it is as old as the last push of its question or older.
type dueQuestion struct {
	at  fabric.Time
	seq uint64
	q   *question
}

// Before orders questions by their deadline, and questions with equal deadlines by arrival.
func (d dueQuestion) Before(o dueQuestion) bool { return d.at < o.at || d.at == o.at && d.seq < o.seq }

// questionKey is a path to a ToR. In a fabric of planes it is one to a host, which has a link of its own in each.
type questionKey struct {
	d    *destination
	path int
	host fabric.NodeID
}

func (t *questions) keyOf(s hostPath) questionKey {
	k := questionKey{s.d, s.path, wholeRack}
	if t.fabric.Planes() > 1 {
		k.host = s.host
	}
	return k
}

// Overdue is the knowledge of a queue pair whose answer is overdue.
type Overdue struct {
	Since fabric.Time `json:",omitzero"` // time of the last ACK, or of the first packet sent after it
	// tail probes sent since then, at doubling intervals: packets behind those in flight
	Probes int `json:",omitzero"`
}

// Overdue reports that a queue pair has waited for an ACK for longer than a round trip. That is no evidence against its
// path, because packets also wait in busy queues, so the core sends a path probe ([Ready].Ask), unless the path has
// just answered. If the path answers, a probe behind the queue pair's packets finds out whether they are lost: see
// [Ready].Resend.
func (c *Core) Overdue(now fabric.Time, qp QP, o Overdue) {
	c.advance(now)
	p := c.pieces.get(qp)
	if p == nil || !c.cfg.Asks {
		return
	}
	c.stats.Overdue++
	s := hostPath{p.dst, int(p.path), p.host}
	if s.d == nil { // under the own ToR: there is no other path, so none is asked
		if o.Probes > 0 {
			c.proofs.probe(p, o.Since)
		}
		return
	}
	kept := s.d.dead.get(s.path) // the last path, which is kept though it is left: it is asked as well
	if kept && !s.d.isGood(s.path) {
		return
	}
	if o.Probes > 0 && s.d.answered[s.path] > o.Since {
		c.proofs.probe(p, o.Since)
	}
	if c.fabric.Planes() == 1 && c.now-s.d.answered[s.path] < s.d.trip {
		return
	}
	if q := c.questions.question(s); q.state == alive && c.now >= q.due {
		c.questions.ask(q)
	}
}

// question returns the question about a path, which is new if none is open.
func (t *questions) question(s hostPath) *question {
	k := t.keyOf(s)
	if q := t.open[k]; q != nil {
		q.host = s.host
		return q
	}
	if t.open == nil {
		t.open = make(map[questionKey]*question)
		t.deadPerUplink, t.lateAnswers = make([]int, t.uplinkSlots), make([]uint8, t.uplinkSlots)
	}
	q := &question{hostPath: s, state: alive, due: t.now}
	t.open[k] = q
	s.d.asked.set(s.path)
	return q
}

// forget ends a question without a verdict.
func (t *questions) forget(q *question) {
	k := t.keyOf(q.hostPath)
	if t.open[k] != q {
		return
	}
	delete(t.open, k)
	if t.fabric.Planes() == 1 {
		q.d.asked.unset(q.path)
	}
	if q.state == dead {
		t.countDeadPath(q, -1)
	}
	q.state, q.due = alive, fabric.Never
}

// countDeadPath counts a dead path, or, with change -1, one that is no longer dead.
func (t *questions) countDeadPath(q *question, change int) {
	d := q.d
	t.deadPerUplink[d.uplink(q.path)] += change
	if d.foundDead == nil {
		d.foundDead = make([]uint8, d.paths)
	}
	d.foundDead[q.path] += uint8(change)
	d.dirty = true
	if change > 0 {
		t.dead = append(t.dead, q)
	} else {
		i := slices.Index(t.dead, q)
		t.dead = slices.Delete(t.dead, i, i+1)
	}
}

// ask sends the probes of a question.
func (t *questions) ask(q *question) {
	if !t.admitProbes(probesPerQuestion) {
		return
	}
	q.state, q.since, q.from, q.secondTime, q.witnessAnswered = asking, t.now, t.now, false, false
	for range probesPerQuestion {
		t.probe(q, q.d, q.path, false)
	}
	if t.lastHeard(q) < t.now-q.d.trip {
		t.askWitnesses(q, 1)
	}
	t.answerDue(q)
}

func (t *questions) dueAt(q *question, at fabric.Time) {
	q.due = at
	t.seq++
	t.queue.Push(dueQuestion{at, t.seq, q})
}

// Answered reports that host peer answered the path probe with that ID ([Ask].ID).
func (c *Core) Answered(now fabric.Time, peer fabric.NodeID, id uint32) {
	c.advance(now)
	a, ok := c.questions.takeProbe(peer, id)
	if !ok {
		return
	}
	for c.questions.clearLink(a) {
		c.movePieces(Return)
	}
	switch c.questions.answered(a) {
	case pathLost:
		if c.losses.noCongestion(a.d) {
			c.stats.Losses++
			c.testLoss(a.q.hostPath, 1)
		}
	case pathBack:
		c.movePieces(Return)
	}
}

// answerVerdict is the conclusion from an answer about the path of its question.
type answerVerdict uint8

const (
	nothingNew answerVerdict = iota
	pathLost                 // the path works, though a retransmission timer expired: a packet was lost
	pathBack                 // the path was dead, and works again
)

// answered processes an answer.
func (t *questions) answered(a probeInFlight) answerVerdict {
	t.excess.Sample(max(0, t.now-a.at-a.d.probeTrip))
	t.sampleSlowest(max(0, t.now-a.at-a.d.probeTrip))
	q := a.q
	switch {
	case a.witness:
		q.witnessAnswered = q.witnessAnswered || a.at >= q.since
	case q.state == asking:
		t.stats.PathsAlive++
		t.postponeProbes(q)
		if q.expired {
			q.expired = false
			return pathLost
		}
	case q.state == dead:
		t.stats.PathsBack++
		if late := &t.lateAnswers[q.d.uplink(q.path)]; a.at < q.diedAt {
			t.stats.PathsLate++
			*late = min(*late+1, maxLate)
		}
		t.forget(q)
		return pathBack
	}
	return nothingNew
}

// postponeProbes stops probes of a path that is alive for a time that doubles each time.
func (t *questions) postponeProbes(q *question) {
	q.state, q.due = alive, t.now+t.probeInterval(q)
	q.round = min(q.round+1, maxRounds)
}

// noteAnswer records that a path works, and a host.
func (t *questions) noteAnswer(d *destination, path int, host fabric.NodeID) {
	d.answered[path] = t.now
	first, _ := t.fabric.HostsOf(d.tor)
	h := &d.latestAnswers[host-first]
	if uplink := int32(d.uplink(path)); h[0].uplink != uplink {
		h[0], h[1] = answer{t.now, uplink}, h[0]
	} else {
		h[0].at = t.now
	}
}

// answer is the time of a host's last answer, and the uplink by which it arrived.
type answer struct {
	at     fabric.Time
	uplink int32
}

// lastHeard returns the time of the latest answer of a question's host by another uplink.
func (t *questions) lastHeard(q *question) fabric.Time {
	first, _ := t.fabric.HostsOf(q.d.tor)
	h := &q.d.latestAnswers[q.host-first]
	if int(h[0].uplink) == q.d.uplink(q.path) {
		return h[1].at
	}
	return h[0].at
}

// due returns a question whose verdict is due, or nil. It sends the probes of dead paths that are due.
func (t *questions) due() *question {
	for t.deadline() <= t.now {
		q := t.queue.Pop().q
		if q.state == asking {
			return q
		}
		if t.admitProbes(1) {
			t.probe(q, q.d, q.path, false)
		}
		q.round = min(q.round+1, maxDeadRounds)
		t.dueAt(q, t.now+t.probeInterval(q))
	}
	return nil
}

// deadline returns when the next question is due.
func (t *questions) deadline() fabric.Time {
	for len(t.queue) > 0 {
		if d := t.queue[0]; d.q.state != alive && d.q.due == d.at {
			return d.at
		}
		t.queue.Pop() // decided, or asked again since
	}
	return fabric.Never
}

// decide decides about a path that has not answered its probes in time, and reports whether the host leaves the path.
func (t *questions) decide(q *question) (left bool) {
	switch {
	case t.tooEarly(q):
	case q.witnessAnswered || t.lastHeard(q) >= q.since:
		t.declareDead(q)
		return true
	case !q.secondTime:
		q.secondTime, q.from = true, t.now
		t.probe(q, q.d, q.path, false)
		t.askWitnesses(q, maxWitnesses)
		t.answerDue(q)
	default: // the host does not answer by any path
		q.expired = false
		t.postponeProbes(q)
	}
	return false
}

// declareDead takes a path whose probes are not answered for dead.
func (t *questions) declareDead(q *question) {
	t.stats.PathsDead++
	q.state, q.round, q.expired, q.diedAt = dead, 0, false, t.now
	t.dueAt(q, t.now+t.probeInterval(q))
	t.countDeadPath(q, 1)
	t.reportFailedPath(q.hostPath)
	t.findCommonLink(q)
}

// doubtful reports whether a path to d is being probed, or another path by its uplink does not answer.
func (t *questions) doubtful(d *destination, path int) bool {
	if d.asked.get(path) {
		if q := t.open[questionKey{d, path, wholeRack}]; q != nil && q.state == asking {
			return true
		}
	}
	return len(t.deadPerUplink) > 0 && t.deadPerUplink[d.uplink(path)] > 0
}

// noteData processes an acknowledgement of a queue pair's data.
func (t *questions) noteData(p *piece) {
	d, path := p.dst, int(p.path)
	if t.now-p.flipped < d.trip {
		return // it may have come by the path before
	}
	t.noteAnswer(d, path, p.host)
	if d.asked.get(path) {
		if q := t.open[t.keyOf(hostPath{d, path, p.host})]; q != nil && q.state == alive {
			t.forget(q)
		}
	}
}

// addDeadPaths adds the paths to d that questions found dead to the dead ones. It forgets the questions about those
// with a link that is reported dead: its repair will be reported as well, and until then switches may send probes by
// other paths.
func (t *questions) addDeadPaths(d *destination) {
	if d.foundDead == nil {
		return
	}
	for _, q := range slices.Clone(t.dead) {
		if q.d == d && t.crossesReportedDead(d, q.path) {
			t.forget(q)
		}
	}
	for path, n := range d.foundDead {
		if n > 0 {
			d.dead.set(path)
		}
	}
}

// forgetAll forgets the questions about some paths.
func (t *questions) forgetAll(crosses func(hostPath) bool) {
	for _, q := range t.open {
		if crosses(q.hostPath) {
			t.forget(q)
		}
	}
}

func (t *questions) rebase(now fabric.Time) {
	t.tat, t.slowestAnswer.at = t.tat.Rebase(now), t.slowestAnswer.at.Rebase(now)
	for i := range t.queue {
		t.queue[i].at = t.queue[i].at.Rebase(now)
	}
	for i := range t.probes {
		t.probes[i].at = t.probes[i].at.Rebase(now)
	}
	for _, q := range t.open {
		q.since, q.due, q.diedAt = q.since.Rebase(now), q.due.Rebase(now), q.diedAt.Rebase(now)
		q.from = q.from.Rebase(now)
	}
	for _, d := range t.destinations {
		for i := range d.answered {
			d.answered[i] = d.answered[i].Rebase(now)
		}
		for i := range d.latestAnswers {
			for j := range d.latestAnswers[i] {
				d.latestAnswers[i][j].at = d.latestAnswers[i][j].at.Rebase(now)
			}
		}
	}
}
