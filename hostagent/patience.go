package hostagent

import "github.com/ethereal-fabric/ethereal/fabric"

// How long a path may take to answer. In hardware that follows from the fabric and from what probes have taken. Hosts
// and switches in software ([Config].AskWait) also wait for a processor, and drop what exceeds their buffers meanwhile:
// a switch that is not scheduled is no dead path. So there a path may take many times as long as the slowest answer of
// the last while, by whatever path, and it is asked again in between. While answers are that slow, losses are no
// evidence against a path either: timers expire before answers come, and buffers overflow unmarked.

const (
	probeRounds   = 4                  // in software, a question's time has so many parts, and each begins with a probe
	slowestFactor = 8                  // in software, the time allowed is so many times that of the slowest answer
	maxAskWaits   = 5                  // maximum wait for a path probe's answer, in units of AskWait
	slowestHalf   = 60 * fabric.Second // in which the slowest answer counts half
	maxLate       = 3                  // how often late answers double the time allowed
	fewSamples    = 8                  // answered probes from which on the measured excess replaces an assumed one
)

// lateness is the largest lateness of an answer, or of this host's own process, compared with the idle fabric. It
// decays with time.
type lateness struct {
	by, at fabric.Time
}

// sampleSlowest adds an answer, or a deadline of this host that was met late.
func (h *site) sampleSlowest(by fabric.Time) {
	if h.cfg.AskWait > 0 && by >= h.slowestNow() {
		h.slowestAnswer = lateness{by, h.now}
	}
}

// slowestNow returns the lateness of the slowest recent answer, which decays with time.
func (h *site) slowestNow() fabric.Time {
	return h.slowestAnswer.by >> min(62, (h.now-h.slowestAnswer.at)/slowestHalf)
}

// starved reports whether answers come so late that the processes of hosts and switches must lack processors.
func (h *site) starved() bool {
	return h.cfg.AskWait > 0 && slowestFactor*h.slowestNow() > h.cfg.AskWait
}

// probeTransitTime returns the time in which so many probes of each host pass the links that they share: those from the
// rack and, with three tiers, those from the pod.
func (h *site) probeTransitTime(n int) fabric.Time {
	s := h.fabric.Spec()
	_, hosts := h.fabric.HostsOf(h.tor)
	bytes := int64(n) * probeFrameBytes * int64(hosts)
	if !h.fabric.Clos() {
		return s.HostLink.Rate.TimeFor(bytes)
	}
	take := s.ToRUplink.Rate.TimeFor(bytes / int64(max(1, h.uplinks)))
	if h.fabric.ThreeTier() {
		take = max(take, s.AggUplink.Rate.TimeFor(bytes*int64(s.ToRsPerPod)/int64(max(1, h.aggs*h.aggUplinks))))
	}
	return take
}

// probeCrowdTime returns the time in which a host receives the probes of all hosts, if each has as many on the way to
// it as this one has beyond those of one question: several paths to one host are most likely asked in an incast.
func (t *questions) probeCrowdTime(host fabric.NodeID) fabric.Time {
	n := -probesPerQuestion - 1
	for i := range t.probes {
		if t.probes[i].q != nil && t.probes[i].host == host {
			n++
		}
	}
	return t.fabric.Spec().HostLink.Rate.TimeFor(int64(max(0, n)) * probeFrameBytes * int64(t.fabric.Hosts()))
}

// askWait returns the time in which a host answers a path probe if its path is alive. A probe may wait for one full
// packet at each link, in each direction, and behind other hosts' probes and acknowledgements: if this host has asked
// much, others have, too. If answers by an uplink came too late, more time is allowed for the next ones.
func (t *questions) askWait(s hostPath) fabric.Time {
	d := s.d
	slack := d.probeTrip / 2
	if t.excess.Samples >= fewSamples {
		slack = max(d.probeTrip/4, t.excess.SRTT+4*t.excess.RTTVar)
	}
	late := t.lateAnswers[d.uplink(s.path)]
	wait := d.probeTrip + slack<<late + max(t.probeTransitTime(t.waiting), t.probeCrowdTime(s.host))
	if least := t.cfg.AskWait; least > 0 {
		wait = max(wait, d.probeTrip+slowestFactor*t.slowestNow())
		return max(least<<late, min(wait, maxAskWaits*least))
	}
	return wait
}

// answerDue sets the time of a question's verdict, or in software of its next probe if that is earlier.
func (t *questions) answerDue(q *question) {
	wait := t.askWait(q.hostPath)
	if t.cfg.AskWait > 0 {
		wait = min(max(q.from+wait-t.now, 0), wait/probeRounds)
	}
	t.dueAt(q, t.now+wait)
}

// probeInterval returns the time until a path that has answered, or is dead, is probed again. In software a probe costs
// as much as a packet of data, and a switch that is not scheduled answers no sooner if it is asked more often.
func (t *questions) probeInterval(q *question) fabric.Time {
	return max(q.d.trip<<q.round, t.cfg.AskWait/probeRounds)
}

// tooEarly reports whether it is too early for a verdict in software. The path is probed again then, unless data that
// went by it were answered. The time in which this host itself was not scheduled does not count, nor does that in which
// the limit of probes kept it from asking.
func (t *questions) tooEarly(q *question) bool {
	if t.cfg.AskWait == 0 {
		return false
	}
	own := t.now - q.due
	q.from += own
	t.sampleSlowest(own)
	switch {
	case q.d.answered[q.path] >= q.since:
		q.expired = false
		t.postponeProbes(q)
		return true
	case t.now >= q.from+t.askWait(q.hostPath):
		return false
	case t.admitProbes(1):
		t.probe(q, q.d, q.path, false)
	default:
		q.from += t.askWait(q.hostPath) / probeRounds
	}
	t.answerDue(q)
	return true
}
