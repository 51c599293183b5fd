package hostagent

import (
	"cmp"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// probeInFlight is a path probe in flight.
type probeInFlight struct {
	q       *question // nil: answered
	d       *destination
	path    int
	host    fabric.NodeID
	at      fabric.Time
	witness bool
}

// probeTime returns the time in which the limit of probes admits one more.
func (t *questions) probeTime() fabric.Time {
	return min(t.fabric.HostShare(), cmp.Or(t.cfg.Rate, fabric.MaxRate)).TimeFor(probeFrameBytes * probeRateShare)
}

// admitProbes limits the rate of probes: the generic cell rate algorithm. A burst takes as long everywhere: where many
// hosts share narrow links between ToRs, it is fewer probes.
func (t *questions) admitProbes(n int) bool {
	spec, each := t.fabric.Spec(), t.probeTime()
	if t.tat-t.now > each*max(1, probeBurst*fabric.Time(t.fabric.HostShare())/fabric.Time(spec.HostLink.Rate)) {
		t.stats.ProbesHeld++
		return false
	}
	t.tat = max(t.tat, t.now) + each*fabric.Time(n)
	return true
}

// probe sends a probe for a question, by its path or, as a witness, by another.
func (t *questions) probe(q *question, d *destination, path int, witness bool) {
	id := t.first + uint32(len(t.probes))
	t.probes = append(t.probes, probeInFlight{q, d, path, q.host, t.now, witness})
	t.ready.Ask = append(t.ready.Ask, Ask{id & (1<<24 - 1), q.host, t.label(d, path)})
	t.stats.PathProbes++
	t.waiting++
	// Answers to old ones are of no use.
	drop := 0
	for _, a := range t.probes {
		if a.q != nil && t.now-a.at <= 16*t.askWait(hostPath{a.d, a.path, a.host}) {
			break
		}
		drop++
	}
	if drop >= len(t.probes)/2 {
		for _, a := range t.probes[:drop] {
			if a.q != nil {
				t.waiting--
			}
		}
		t.probes = append(t.probes[:0], t.probes[drop:]...)
		t.first += uint32(drop)
	}
}

// askWitnesses sends probes to the same host by other paths: by other uplinks first, and among these by such that
// are not known to be silent. The planes take turns, beginning with another one, since a whole plane may be dead.
func (t *questions) askWitnesses(q *question, most int) {
	d, own := q.d, q.d.uplink(q.path)
	planes := t.fabric.Planes()
	each := d.paths / planes
	sent := 0
	for _, other := range []bool{true, false} {
		start, plane := int(t.pathOrder(d, q.path)%uint64(d.paths)), q.path/each
		var last [fabric.MaxPlanes]int // the latest uplink in a plane, + 1
		for i := range d.paths {
			in := (plane + 1 + i) % planes
			path := in*each + (start+i/planes)%each
			uplink := d.uplink(path)
			if sent >= most || path == q.path || uplink == last[in]-1 || (uplink != own && !d.dead.get(path)) != other {
				continue
			}
			last[in] = uplink + 1 // one by each uplink
			sent++
			t.probe(q, d, path, true)
		}
	}
	t.tat += t.probeTime() * fabric.Time(sent)
}

// takeProbe returns the probe that a host has answered, once.
func (t *questions) takeProbe(peer fabric.NodeID, id uint32) (a probeInFlight, ok bool) {
	i := (id - t.first) & (1<<24 - 1)
	if int(i) >= len(t.probes) || t.probes[i].q == nil || t.probes[i].host != peer {
		return probeInFlight{}, false
	}
	a, t.probes[i].q = t.probes[i], nil
	t.waiting--
	t.noteAnswer(a.d, a.path, a.host)
	return a, true
}
