package hostagent

import (
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/heap"
)

// Ask is a path probe to send: a packet that asks the host Dst for an answer by the path of Label, in a class in which
// no data delay it. Report its answer to [Core.Answered] with the same ID.
type Ask struct {
	ID    uint32 // 24 bits
	Dst   fabric.NodeID
	Label fabric.Label
}

// question is what a host asks one path: is it alive?
type question struct {
	sample
	state   questionState
	since   fabric.Time // asking: time of the first probe
	due     fabric.Time // time of the verdict; alive: of the next question at the earliest; dead: of the next probe
	round   uint8       // of questions without an answer to data in between, or of probes of the dead path
	again   bool        // asking: for the second time, with more witnesses
	seen    bool        // asking: a witness is answered
	expired bool        // the cause was a retransmission timer
	left    fabric.Time // dead: time of the verdict
}

type questionState uint8

const (
	asking questionState = iota
	alive                // the path answered, or no path did
	dead                 // the path did not answer, and others did
)

const (
	probesPerQuestion = 2 // one alone may be lost on a link that loses some packets
	mostWitnesses     = 8
	maxRounds         = 6 // the time between questions doubles that often
	maxDeadRounds     = 8
	askBurst          = 256 // probes at once
	askShare          = 64  // probes take that part of the host's link at most
	askFrame          = 128 // bytes of a probe with framing
)

// asked is a probe that may still be answered.
type asked struct {
	q       *question // nil: answered
	d       *destination
	path    int
	host    fabric.NodeID
	at      fabric.Time
	witness bool
}

// questions are the open questions of a core, and the probes on the way.
type questions struct {
	open   map[questionKey]*question
	due    heap.Heap[dueQuestion]
	probes []asked // by ID, from first on
	first  uint32
	dead   []*question     // in order of their verdicts
	silent []int           // by way: dead paths
	late   []uint8         // by way: how often an answer came after the verdict
	links  []fabric.LinkID // known to be dead by several dead paths
	tat    fabric.Time     // theoretical arrival time of the rate limit of probes
}

// questionKey is a path to a ToR. In a fabric of planes it is one to a host, which has a link of its own in each.
type questionKey struct {
	d    *destination
	path int
	host fabric.NodeID
}

func (c *Core) keyOf(s sample) questionKey {
	k := questionKey{s.d, s.path, wholeRack}
	if c.fabric.Planes() > 1 {
		k.host = s.host
	}
	return k
}

// askWait returns the time in which a path probe to d is answered if its path is alive. A probe may wait for one full
// packet at each link, in each direction, and behind other hosts' probes and acknowledgements. If answers by an uplink
// came too late, more time is allowed for the next ones.
func (c *Core) askWait(d *destination, path int) fabric.Time {
	slack := d.probeTrip / 2
	if c.excess.Samples >= fewSamples {
		slack = max(d.probeTrip/4, c.excess.SRTT+4*c.excess.RTTVar)
	}
	return max(c.cfg.AskWait, d.probeTrip+slack<<c.questions.late[d.way(path)])
}

// mostLate is how often late answers double the time allowed.
const mostLate = 3

// fewSamples is the number of answered probes from which on the measured excess replaces an assumed one.
const fewSamples = 8

// Overdue is the knowledge of a queue pair whose answer is overdue.
type Overdue struct {
	Since  fabric.Time `json:",omitzero"` // time of its last answer, or of the first packet after that
	Probes int         `json:",omitzero"` // tail probes since: zero-length writes behind its last packets
}

// lostProbes is the number of unanswered tail probes, at doubling intervals, on a path that answers which show a loss.
const lostProbes = 3

// Overdue reports that a queue pair has waited for an answer for a round trip. That is no evidence against its path,
// because data wait wherever the fabric is busy, but the path is asked, unless it has answered other queue pairs. If
// the path answers, and tail probes stay unanswered, something was lost there, unless switches mark or pause packets.
func (c *Core) Overdue(now fabric.Time, qp QP, o Overdue) {
	c.advance(now)
	p := c.pieces.get(qp)
	if p == nil || p.dst == nil || !c.cfg.Asks {
		return
	}
	c.stats.Overdue++
	s := sample{p.dst, int(p.path), p.host}
	kept := s.d.dead.get(s.path) // the last path, which is kept though it is left: it is asked as well
	if kept && !s.d.isGood(s.path) {
		return
	}
	if !kept && o.Probes >= lostProbes && s.d.answered[s.path] > o.Since && !c.cfg.Losses.Pauses && !c.cfg.Losses.Off &&
		!c.excused(s, o.Since) {
		c.stats.Losses++
		c.testLoss(s, 1)
		if s.d.dead.get(s.path) {
			return
		}
	}
	if c.fabric.Planes() == 1 && c.now-s.d.answered[s.path] < s.d.trip {
		return
	}
	if q := c.question(s); q.state == alive && c.now >= q.due {
		c.ask(q)
	}
}

// question returns the question about a path, which is new if none is open.
func (c *Core) question(s sample) *question {
	k := c.keyOf(s)
	if q := c.questions.open[k]; q != nil {
		q.host = s.host
		return q
	}
	if c.questions.open == nil {
		c.questions.open = make(map[questionKey]*question)
		c.questions.silent, c.questions.late = make([]int, c.ways), make([]uint8, c.ways)
	}
	q := &question{sample: s, state: alive, due: c.now}
	c.questions.open[k] = q
	s.d.asked.set(s.path)
	return q
}

// forgetQuestion ends a question.
func (c *Core) forgetQuestion(q *question) {
	k := c.keyOf(q.sample)
	if c.questions.open[k] != q {
		return
	}
	delete(c.questions.open, k)
	if c.fabric.Planes() == 1 {
		q.d.asked.unset(q.path)
	}
	if q.state == dead {
		c.bury(q, -1)
	}
	q.state, q.due = alive, fabric.Never
}

// bury counts a dead path, or, with change -1, one that is no longer dead.
func (c *Core) bury(q *question, change int) {
	d := q.d
	c.questions.silent[d.way(q.path)] += change
	if d.silent == nil {
		d.silent = make([]uint8, d.paths)
	}
	d.silent[q.path] += uint8(change)
	d.dirty = true
	if change > 0 {
		c.questions.dead = append(c.questions.dead, q)
	} else {
		i := slices.Index(c.questions.dead, q)
		c.questions.dead = slices.Delete(c.questions.dead, i, i+1)
	}
}

// ask puts a question.
func (c *Core) ask(q *question) {
	if !c.admitProbes(probesPerQuestion) {
		return
	}
	q.state, q.since, q.again, q.seen = asking, c.now, false, false
	for range probesPerQuestion {
		c.probe(q, q.d, q.path, false)
	}
	if c.heardBy(q) < c.now-q.d.trip {
		c.askWitnesses(q, 1)
	}
	c.dueAt(q, c.now+c.askWait(q.d, q.path))
}

func (c *Core) dueAt(q *question, at fabric.Time) {
	q.due = at
	c.nextSeq++
	c.questions.due.Push(dueQuestion{at, c.nextSeq, q})
}

// admitProbes limits the rate of probes: the generic cell rate algorithm.
func (c *Core) admitProbes(n int) bool {
	each := c.fabric.Spec().HostLink.Rate.TimeFor(askFrame * askShare)
	t := &c.questions
	if t.tat-c.now > each*askBurst {
		c.stats.ProbesHeld++
		return false
	}
	t.tat = max(t.tat, c.now) + each*fabric.Time(n)
	return true
}

// probe sends a probe for a question, by its path or, as a witness, by another.
func (c *Core) probe(q *question, d *destination, path int, witness bool) {
	t := &c.questions
	id := t.first + uint32(len(t.probes))
	t.probes = append(t.probes, asked{q, d, path, q.host, c.now, witness})
	c.asking = append(c.asking, Ask{id & (1<<24 - 1), q.host, c.label(d, path)})
	c.stats.PathProbes++
	// Answers to old ones are of no use.
	drop := 0
	for drop < len(t.probes) && (t.probes[drop].q == nil || c.now-t.probes[drop].at > 16*c.askWait(t.probes[drop].d, t.probes[drop].path)) {
		drop++
	}
	if drop >= len(t.probes)/2 {
		t.probes = append(t.probes[:0], t.probes[drop:]...)
		t.first += uint32(drop)
	}
}

// askWitnesses sends probes to the same host by other paths: by other uplinks first, and among these by such that
// are not known to be silent.
func (c *Core) askWitnesses(q *question, most int) {
	d, own := q.d, q.d.way(q.path)
	sent := 0
	for _, other := range []bool{true, false} {
		start := int(c.order(d, q.path) % uint64(d.paths))
		last := -1
		for i := range d.paths {
			path := (start + i) % d.paths
			way := d.way(path)
			if sent >= most || path == q.path || way == last || (way != own && !d.dead.get(path)) != other {
				continue
			}
			last = way // one by each uplink
			sent++
			c.probe(q, d, path, true)
		}
	}
	c.questions.tat += c.fabric.Spec().HostLink.Rate.TimeFor(askFrame*askShare) * fabric.Time(sent)
}

// Answered reports the answer of a host to a path probe.
func (c *Core) Answered(now fabric.Time, peer fabric.NodeID, id uint32) {
	c.advance(now)
	t := &c.questions
	i := (id - t.first) & (1<<24 - 1)
	if int(i) >= len(t.probes) || t.probes[i].q == nil || t.probes[i].host != peer {
		return
	}
	a := t.probes[i]
	t.probes[i].q = nil
	q := a.q
	c.noteAnswer(a.d, a.path, a.host)
	c.acquit(a.d, a.path, a.host)
	c.excess.Sample(max(0, c.now-a.at-a.d.probeTrip))
	switch {
	case a.witness:
		q.seen = q.seen || a.at >= q.since
	case q.state == asking:
		c.stats.PathsAlive++
		q.state = alive
		q.due = c.now + q.d.trip<<q.round
		q.round = min(q.round+1, maxRounds)
		if q.expired {
			q.expired = false
			if c.now-q.d.marks.last >= c.cfg.Calm && !c.cfg.Losses.Pauses {
				c.stats.Losses++
				c.testLoss(q.sample, 1)
			}
		}
	case q.state == dead:
		c.stats.PathsBack++
		if late := &c.questions.late[q.d.way(q.path)]; a.at < q.left {
			*late = min(*late+1, mostLate)
		}
		c.forgetQuestion(q)
		c.movePieces(Return)
	}
}

// noteAnswer records that a path works, and a host.
func (c *Core) noteAnswer(d *destination, path int, host fabric.NodeID) {
	d.answered[path] = c.now
	first, _ := c.fabric.HostsOf(d.tor)
	h := &d.heard[host-first]
	if way := int32(d.way(path)); h[0].way != way {
		h[0], h[1] = answer{c.now, way}, h[0]
	} else {
		h[0].at = c.now
	}
}

// answer is the time of a host's answer, and the way it came.
type answer struct {
	at  fabric.Time
	way int32
}

// heardBy returns the time of the latest answer of a question's host by another uplink.
func (c *Core) heardBy(q *question) fabric.Time {
	first, _ := c.fabric.HostsOf(q.d.tor)
	h := &q.d.heard[q.host-first]
	if int(h[0].way) == q.d.way(q.path) {
		return h[1].at
	}
	return h[0].at
}

// answerQuestions decides the questions that are due.
func (c *Core) answerQuestions() {
	t := &c.questions
	for {
		at, ok := c.nextQuestion()
		if !ok || at > c.now {
			return
		}
		q := t.due.Pop().q
		switch q.state {
		case dead:
			if c.admitProbes(1) {
				c.probe(q, q.d, q.path, false)
			}
			q.round = min(q.round+1, maxDeadRounds)
			c.dueAt(q, c.now+q.d.trip<<q.round)
		case asking:
			c.decide(q)
		}
	}
}

// nextQuestion returns when the next question is due.
func (c *Core) nextQuestion() (at fabric.Time, ok bool) {
	t := &c.questions
	for len(t.due) > 0 {
		if d := t.due[0]; d.q.state != alive && d.q.due == d.at {
			return d.at, true
		}
		t.due.Pop() // decided, or asked again since
	}
	return 0, false
}

// decide decides a question whose path has not answered in time.
func (c *Core) decide(q *question) {
	switch {
	case q.seen || c.heardBy(q) >= q.since:
		c.leaveSilent(q)
	case !q.again:
		q.again = true
		c.probe(q, q.d, q.path, false)
		c.askWitnesses(q, mostWitnesses)
		c.dueAt(q, c.now+c.askWait(q.d, q.path))
	default: // the host does not answer by any path
		q.state, q.expired = alive, false
		q.due = c.now + q.d.trip<<q.round
		q.round = min(q.round+1, maxRounds)
	}
}

// leaveSilent leaves a path whose probes are not answered.
func (c *Core) leaveSilent(q *question) {
	c.stats.PathsDead++
	q.state, q.round, q.expired, q.left = dead, 0, false, c.now
	c.dueAt(q, c.now+q.d.trip)
	c.bury(q, 1)
	c.failed = append(c.failed, Failed{Dst: q.host, DstToR: q.d.tor, Label: c.label(q.d, q.path)})
	c.locate(q)
	c.movePieces(BySilence)
	c.keepAnother(q.sample, BySilence)
}

// keepAnother keeps another path if all are left and the kept one does not work either: the evidence against the
// others holds against it as well. Paths with links known to be dead are the last choice.
func (c *Core) keepAnother(s sample, why Reason) {
	d := s.d
	if !d.allDead() || s.path != d.kept || d.paths == 1 {
		return
	}
	linkDead := newBitmap(d.paths)
	for _, id := range c.deadLinks {
		if over, ok := c.over(d, id); ok {
			d.each(over, linkDead.set)
		}
	}
	for _, step := range []int{d.vs + 1, 1} {
		for i := 1; i < d.paths; i++ {
			if p := (s.path + i*step) % d.paths; p != s.path && !linkDead.get(p) {
				d.kept, d.dirty = p, true
				c.movePieces(why)
				return
			}
		}
	}
}

// doubtful reports whether a path to d is being asked, or another path by its uplink is silent.
func (c *Core) doubtful(d *destination, path int) bool {
	if d.asked.get(path) {
		if q := c.questions.open[questionKey{d, path, wholeRack}]; q != nil && q.state == asking {
			return true
		}
	}
	return len(c.questions.silent) > 0 && c.questions.silent[d.way(path)] > 0
}

// noteData processes an acknowledgement of a queue pair's data.
func (c *Core) noteData(p *piece) {
	d, path := p.dst, int(p.path)
	if c.now-p.flipped < d.trip {
		return // it may have come by the path before
	}
	c.noteAnswer(d, path, p.host)
	if d.asked.get(path) {
		if q := c.questions.open[c.keyOf(sample{d, path, p.host})]; q != nil && q.state == alive {
			c.forgetQuestion(q)
		}
	}
}

// setSilent marks the paths to d that questions found dead. It forgets the questions about those with a link that is
// reported dead: its repair will be reported as well, and until then switches may send probes by other paths.
func (c *Core) setSilent(d *destination) {
	if d.silent == nil {
		return
	}
	for _, q := range slices.Clone(c.questions.dead) {
		if q.d == d && c.reported(d, q.path) {
			c.forgetQuestion(q)
		}
	}
	for path, n := range d.silent {
		if n > 0 {
			d.dead.set(path)
		}
	}
}

// linkDead reports whether a link of a path to d is known to be dead.
func (c *Core) linkDead(d *destination, path int) bool {
	return slices.ContainsFunc(c.deadLinks, func(id fabric.LinkID) bool { return c.crosses(d, path, id) })
}

// reported reports whether a switch or a controller reports a link of a path to d dead.
func (c *Core) reported(d *destination, path int) bool {
	return slices.ContainsFunc(c.deadLinks, func(id fabric.LinkID) bool {
		l := c.links[id]
		return (l.down || l.quench || l.suspected) && c.crosses(d, path, id)
	})
}

// forgetQuestions forgets the questions about some paths.
func (c *Core) forgetQuestions(crosses func(sample) bool) {
	for _, q := range c.questions.open {
		if crosses(q.sample) {
			c.forgetQuestion(q)
		}
	}
}

func (t *questions) rebase(now fabric.Time) {
	t.tat = t.tat.Rebase(now)
	for i := range t.due {
		t.due[i].at = t.due[i].at.Rebase(now)
	}
	for i := range t.probes {
		t.probes[i].at = t.probes[i].at.Rebase(now)
	}
	for _, q := range t.open {
		q.since, q.due, q.left = q.since.Rebase(now), q.due.Rebase(now), q.left.Rebase(now)
	}
}
