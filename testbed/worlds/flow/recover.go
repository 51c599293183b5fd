package flow

import (
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint/balance"
)

// track is the extra state of a queue pair in a run with failures: the ways of its packets and of their answers
// and, once a dead path has lost some, the knowledge of its sender and its receiver. Packets are counted from 0.
//
// The sender of a lost packet knows nothing and continues at its rate. An attempt is the sending from a packet up
// to the last one. The sender goes back, and begins another attempt, when its agent moves it, when the receiver
// asks for missing packets, or when its timer expires.
type track struct {
	way, back way
	flow      int32       // of the attempt; -1: all of it is sent
	base      int64       // its first packet
	wire      float64     // its bytes on the wire
	began     fabric.Time // when it begins
	ended     fabric.Time // when its last packet began to leave
	waited    fabric.Time // queueing time of the last packet, as estimated
	rate      float64     // rate at its end
	again     bool        // not the first attempt: its answers give no round-trip time

	lost    bool  // packets of it are lost: the receiver accepts none from `arrived` on
	arrived int64 // packets that the receiver has, if some are lost
	muted   bool  // answers are lost: the sender knows only of `acked`
	acked   int64
	asked   bool // the receiver has asked for the missing packets
	done    bool // the receiver has all
	slowed  bool // marks had lowered its sending rate

	expire fabric.Time // retransmission timer; 0: stopped
	since  fabric.Time // sending time of the first unanswered packet
	tail   fabric.Time // when it counts as silent; 0: no timer
	probes int8        // number of probes behind the last packet
	tries  int8        // number of silences
}

func (t *track) ailing() bool { return t.lost || t.muted }

// packets returns a queue pair's number of packets.
func (w *world) packets(p *piece) int64 {
	payload := int64(w.run.Scenario.Host.Payload)
	return max(1, (p.bytes+payload-1)/payload)
}

// fullBytes returns the length of a full packet on the wire.
func (w *world) fullBytes() float64 { return float64(int64(w.run.Scenario.Host.Payload) + w.header) }

// bytesFrom returns the length on the wire of all packets from one on.
func (w *world) bytesFrom(p *piece, packet int64) float64 {
	bytes := p.bytes - packet*int64(w.run.Scenario.Host.Payload)
	wire := float64(max(0, bytes) + (w.packets(p)-packet)*w.header)
	if packet == 0 {
		wire += rethBytes
	}
	return wire
}

// delay returns a packet's time from its host over the first links of a way, without queues.
func (w *world) delay(y *way, hops int8, bytes int64) (t fabric.Time) {
	for i, d := range y.links[:hops] {
		l := w.f.Link(fabric.LinkID(d / 2))
		t += l.Delay
		if i > 0 {
			t += l.Rate.TimeFor(bytes)
		}
	}
	return t
}

// there and answered return a full packet's time to its receiver, and until its answer arrives.
func (w *world) there(t *track) fabric.Time {
	return w.delay(&t.way, t.way.hops, int64(w.fullBytes()))
}

func (w *world) answered(t *track) fabric.Time {
	return w.there(t) + w.delay(&t.back, t.back.hops, w.ack) + w.f.Link(fabric.LinkID(t.back.links[0]/2)).Rate.TimeFor(w.ack)
}

// sentBy returns the number of a queue pair's packets that had left its host by a time before now.
func (w *world) sentBy(p *piece, at fabric.Time) int64 {
	t := p.track
	if at <= t.began {
		return t.base
	}
	left := t.rate * float64(t.ended-at)
	if t.flow >= 0 {
		f := &w.flows[t.flow]
		left = f.left + f.rate*float64(w.now-at)
	}
	if left <= 0 {
		return w.packets(p)
	}
	sent := max(0, t.wire-left)
	return min(t.base+int64(sent/w.fullBytes()), w.packets(p))
}

// ways returns the ways of a queue pair's packets and of their answers.
func (w *world) ways(p *piece) (there, back way) {
	l := p.label
	there = w.follow(p.src, p.dst, l)
	if h := w.hosts[p.dst]; h != nil && w.model == balance.Labelled && l < w.f.LabelSpan() {
		l = h.core.Scheme().AckLabel(w.clock, p.src, l, false)
	}
	return there, w.follow(p.dst, p.src, l)
}

// changed records that a switch sends packets elsewhere, or that a link at it changed.
func (w *world) changed(at fabric.NodeID) { w.touched[at] = true }

// reroute recomputes the ways of the queue pairs that the changes can concern.
func (w *world) reroute() {
	if len(w.touched) == 0 {
		return
	}
	through := func(y *way) bool {
		for _, d := range y.links[:y.hops] {
			l := w.f.Link(fabric.LinkID(d / 2))
			if w.touched[l.A.Node] || w.touched[l.B.Node] {
				return true
			}
		}
		return false
	}
	for k := range w.pieces {
		p := &w.pieces[k]
		if t := p.track; t != nil && !p.waits && (through(&t.way) || through(&t.back)) {
			there, back := w.ways(p)
			w.move(int32(k), there, back)
		}
	}
	clear(w.touched)
	w.stale = true
}

// move puts a queue pair on other ways, and determines the losses on the old ones.
func (w *world) move(k int32, there, back way) {
	p := &w.pieces[k]
	t := p.track
	now, ailing, sending, since := w.clock, t.ailing(), t.flow >= 0, w.clock
	if t.way.live && w.severedAt(&t.way) < t.way.hops {
		t.slowed = w.queues.mark(t.way.links[1:t.way.hops], t.began)
		if sending {
			t.rate = w.flows[t.flow].rate
		}
	}
	if at := w.severedAt(&t.way); t.way.live && at < t.way.hops && !t.lost && !t.done {
		lag := w.delay(&t.way, at+1, int64(w.fullBytes()))
		if arrived := max(t.base, w.sentBy(p, now-lag)); arrived < w.packets(p) {
			t.lost, t.arrived, t.asked = true, arrived, false
			since = now - lag
		}
	}
	if at := w.severedAt(&t.back); t.back.live && at < t.back.hops && !t.muted {
		lag := w.there(t) + w.delay(&t.back, at+1, w.ack)
		if acked := max(t.base, w.sentBy(p, now-lag)); acked < w.packets(p) {
			t.muted, t.acked = true, acked
			since = min(since, now-lag)
		}
	}
	switch {
	case t.lost && t.muted:
		t.acked = min(t.acked, t.arrived)
	case t.lost && !ailing:
		t.acked = t.arrived
	}
	revived := there.live && !t.way.live
	t.way, t.back = there, back
	if sending {
		w.put(&w.flows[t.flow], &t.way)
		w.limitRate(t)
		w.doomed(p, w.sentBy(p, now))
		if t.muted && !t.lost && t.back.live {
			t.muted = false // the answer to later packets covers all earlier ones
		}
	}
	if t.ailing() && !ailing {
		w.suffer(k)
		w.silentFrom(k, since, since+w.answered(t))
	}
	if revived && t.lost && sending {
		w.ask(k, now)
	}
}

// doomed records the fate of a queue pair's packets from one on, if its ways are dead.
func (w *world) doomed(p *piece, from int64) {
	t := p.track
	if !t.way.live && !t.lost && !t.done {
		t.lost, t.arrived, t.asked = true, from, false
		if !t.muted {
			t.acked = from
		}
	}
	if !t.back.live && !t.muted {
		t.muted, t.acked = true, from
	}
}

// severedAt returns the number of links before a way's cut; all of them if there is no cut.
func (w *world) severedAt(y *way) int8 {
	for i, d := range y.links[:y.hops] {
		if w.cut[d] {
			return int8(i)
		}
	}
	return y.hops
}

// suffer cancels the predicted events of a queue pair that has sent everything, and makes its sender wait.
func (w *world) suffer(k int32) {
	p := &w.pieces[k]
	t := p.track
	w.reportAcked(p)
	if t.flow >= 0 {
		return
	}
	p.turn++
	if !t.lost && !t.done {
		w.at(max(w.clock, p.last), onArrived, k, p.turn)
	}
	w.awaitAnswer(k)
}

// reportAcked notifies the agent of the acknowledged part of the outstanding bytes.
func (w *world) reportAcked(p *piece) {
	bytes := min(p.bytes, p.track.acked*int64(w.run.Scenario.Host.Payload)) - p.reported
	if bytes > 0 {
		p.reported += bytes
		w.hosts[p.src].core.Acked(w.clock, p.qp, bytes)
	}
}

// awaitAnswer starts the timers of a queue pair that has sent everything, though not all is answered.
func (w *world) awaitAnswer(k int32) {
	t := w.pieces[k].track
	h := w.hosts[w.pieces[k].src]
	if w.pieces[k].once {
		return
	}
	w.expireAt(k, t.ended+w.run.Scenario.Host.RTO)
	if h.nic.Trip > 0 && t.tail == 0 && w.pieces[k].bytes > 0 {
		if h.nic.Watcher == nil {
			w.lateAt(k, t.ended+h.lastPatience()<<t.probes)
			return
		}
		w.lateAt(k, t.ended+h.patience(&w.pieces[k])<<t.tries)
	}
}

func (w *world) expireAt(k int32, at fabric.Time) {
	p := &w.pieces[k]
	p.track.expire = max(at, w.clock)
	w.at(p.track.expire, onExpire, k, p.turn)
}

func (w *world) lateAt(k int32, at fabric.Time) {
	p := &w.pieces[k]
	p.track.tail = max(at, w.clock)
	w.at(p.track.tail, onLate, k, p.turn)
}

// expired handles the retransmission timer.
func (w *world) expired(k int32) {
	p := &w.pieces[k]
	t := p.track
	if t == nil || t.expire == 0 || t.expire > w.clock {
		return
	}
	t.expire = 0
	w.timeouts++
	src, qp := p.src, p.qp
	w.goBack(k)
	w.hosts[src].core.Timeout(w.clock, qp)
}

// late handles a silent queue pair, as package endpoint does in tail.go.
func (w *world) late(k int32) {
	p := &w.pieces[k]
	t, h, now := p.track, w.hosts[p.src], w.clock
	if t == nil || t.tail == 0 || t.tail > now {
		return
	}
	t.tail = 0
	if h.nic.Watcher == nil {
		if t.probes < endpoint.MaxTailProbes {
			t.probes++
			w.expireAt(k, now+w.run.Scenario.Host.RTO)
			w.ask(k, now)
		}
		return
	}
	if !t.ailing() {
		return
	}
	wait := h.patience(p)
	if h.othersAnswered(p) {
		h.reportMarks(now, p)
		was := p.label
		h.core.Unanswered(now, p.qp, hostagent.Silence{Since: t.since, Wait: wait << t.tries, Times: int(t.tries)})
		if p = &w.pieces[k]; p.label != was {
			return
		}
	}
	if t.flow < 0 && t.probes < endpoint.MaxTailProbes {
		t.probes++
		w.expireAt(k, now+w.run.Scenario.Host.RTO)
		w.ask(k, now)
	}
	t.tries = min(t.tries+1, endpoint.MaxTries)
	w.lateAt(k, now+wait<<t.tries)
}

// ask delivers a packet behind the lost ones to the receiver, if possible: the receiver asks for the missing
// packets, or reports that none is missing.
func (w *world) ask(k int32, now fabric.Time) {
	p := &w.pieces[k]
	t := p.track
	if !t.way.live || !t.back.live || t.asked {
		return
	}
	t.asked = true
	w.at(now+w.answered(t), onAnswered, k, p.turn)
}

// receiveAnswer handles the receiver's answer: it acknowledges all arrived packets, and asks for the missing ones.
func (w *world) receiveAnswer(k int32) {
	p := &w.pieces[k]
	t := p.track
	if !t.lost {
		w.finish(k)
		return
	}
	t.muted, t.acked = false, t.arrived
	h, qp := w.hosts[p.src], p.qp
	since := h.reportMarks(w.clock, p)
	w.goBack(k)
	if h.nic.Watcher != nil {
		h.core.Lost(w.clock, qp, hostagent.Loss{Packets: 1, Since: since})
	}
}

// goBack begins another attempt, from the first packet without acknowledgement.
func (w *world) goBack(k int32) {
	p := &w.pieces[k]
	t := p.track
	w.reportAcked(p)
	p.turn++
	if t.flow < 0 && !t.lost && !t.done {
		w.at(max(w.clock, p.last), onArrived, k, p.turn)
	}
	t.base, t.again, t.asked, t.tail, t.probes, t.expire = t.acked, true, false, 0, 0, 0
	t.lost, t.muted = t.lost && !t.way.live, t.muted && !t.back.live
	w.attempt(k)
}

// attempt sends all packets from t.base on.
func (w *world) attempt(k int32) {
	p := &w.pieces[k]
	t := p.track
	t.wire, t.began = w.bytesFrom(p, t.base), w.clock
	if t.done && !t.ailing() { // the first packet's answer covers all
		t.wire = min(t.wire, w.fullBytes())
	}
	if t.flow >= 0 {
		f := &w.flows[t.flow]
		w.put(f, &t.way)
		f.posted, f.left = t.wire, t.wire
		w.started = append(w.started, started{t.flow, w.clock})
		w.stale = true
	} else {
		t.flow = w.begin(k, t.wire, &t.way)
	}
	w.limitRate(t)
	w.doomed(p, t.base)
	if t.ailing() {
		w.silentFrom(k, w.clock, w.clock)
	}
}

// silentFrom makes a queue pair wait whose first unanswered packet was sent at a time. Package endpoint counts from
// the latest answer.
func (w *world) silentFrom(k int32, since, answer fabric.Time) {
	p := &w.pieces[k]
	h := w.hosts[p.src]
	p.track.since = since
	if h.nic.Watcher != nil && h.nic.Trip > 0 && p.bytes > 0 && !p.once {
		w.lateAt(k, answer+h.patience(p)<<p.track.tries)
	}
}

// limitRate limits a queue pair to its earlier rate while nothing is answered, or after marks.
func (w *world) limitRate(t *track) {
	f := &w.flows[t.flow]
	if f.most = 0; t.slowed || !t.way.live {
		f.most = t.rate
	}
}

// sentAll records that an attempt's last byte has left its host.
func (w *world) sentAll(k int32, f *flow, at fabric.Time) {
	p := &w.pieces[k]
	t := p.track
	last := w.f.Link(fabric.LinkID(t.way.links[0] / 2)).Rate.TimeFor(w.lastBytes(p.bytes))
	t.flow, t.ended, t.rate = -1, at-last, f.rate
	t.waited = w.queues.delay(t.way.links[1:t.way.hops])
	there, back := w.latency(t.way.links[:t.way.hops], t.back.links[:t.back.hops], p.bytes)
	p.last = at + there
	if !t.lost && !t.done {
		w.at(p.last, onArrived, k, p.turn)
	}
	if !t.ailing() {
		w.at(p.last+back, onSent, k, p.turn)
	}
	if t.ailing() {
		w.awaitAnswer(k)
	}
}

// patience returns the time allowed for an answer: see package endpoint's tail.go. The bytes that a host has in
// flight on an uplink are those that it sends on it in an idle fabric's round trip.
func (h *fluidHost) patience(p *piece) fabric.Time {
	w := h.w
	own, _, ok := w.f.SplitLabel(p.label)
	if !ok || w.f.ToROf(p.dst) == w.f.ToROf(p.src) {
		return 2 * h.nic.Trip
	}
	rate := 0.0
	for _, k := range h.open {
		o := &w.pieces[k]
		if u, _, ok := w.f.SplitLabel(o.label); ok && u == own && o.track != nil && o.track.flow >= 0 && w.f.ToROf(o.dst) != w.f.ToROf(o.src) {
			rate += w.flows[o.track.flow].rate
		}
	}
	s := w.f.Spec()
	packets := rate * float64(h.nic.Trip) / w.fullBytes()
	each := s.ToRUplink.Rate.TimeFor(int64(w.fullBytes())) * fabric.Time(s.HostsPerToR)
	return 2*h.nic.Trip + fabric.Time(packets*float64(each))
}

// othersAnswered reports whether other queue pairs have got answers to packets sent since about the time of a
// waiting one's.
func (h *fluidHost) othersAnswered(p *piece) bool {
	since := p.track.since - h.nic.Trip
	if h.latest > since {
		return true
	}
	for _, k := range h.open {
		o := &h.w.pieces[k]
		t := o.track
		if o.qp != p.qp && t != nil && !o.waits && !t.ailing() && t.flow >= 0 && h.w.clock-t.began > h.w.answered(t) {
			return true
		}
	}
	return false
}

// tailAnswered records an answer to a last packet.
func (h *fluidHost) tailAnswered(now fabric.Time, p *piece) {
	t := p.track
	if t.again {
		return
	}
	h.latest = max(h.latest, t.ended)
	if t.probes > 0 {
		return
	}
	trip := now - t.ended + t.waited
	if h.trip == 0 {
		h.trip = trip
	}
	h.vary += (max(trip-h.trip, h.trip-trip) - h.vary) / 4
	h.trip += (trip - h.trip) / 8
}

// lastPatience is the time allowed for the answer to a last packet if paths are not watched.
func (h *fluidHost) lastPatience() fabric.Time { return 2*max(h.nic.Trip, h.trip) + 4*h.vary }

// relabel moves a queue pair.
func (w *world) relabel(k int32, l fabric.Label) {
	p := &w.pieces[k]
	p.label = l
	t := p.track
	if t == nil || p.waits {
		return
	}
	there, back := w.ways(p)
	if t.flow >= 0 && w.flows[t.flow].left == w.flows[t.flow].posted { // all of it uses the new ways
		t.lost, t.muted = t.lost && !there.live, t.muted && !back.live
	}
	w.move(k, there, back)
	if t.flow < 0 && t.ailing() && !w.hosts[p.src].nic.NoNudge {
		w.ask(k, w.clock)
	}
	w.stale = true
}

// piece returns a host's open queue pair.
func (h *fluidHost) piece(qp hostagent.QP) (int32, bool) {
	i := slices.IndexFunc(h.open, func(k int32) bool { return h.w.pieces[k].qp == qp })
	if i < 0 {
		return 0, false
	}
	return h.open[i], true
}
