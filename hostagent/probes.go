package hostagent

import (
	"github.com/ethereal-fabric/ethereal/fabric"
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

// admitProbes limits the rate of probes: the generic cell rate algorithm.
func (t *questions) admitProbes(n int) bool {
	each := t.fabric.Spec().HostLink.Rate.TimeFor(askFrame * askShare)
	if t.tat-t.now > each*askBurst {
		t.stats.ProbesHeld++
		return false
	}
	t.tat = max(t.tat, t.now) + each*fabric.Time(n)
	return true
}

// probe sends a probe for a question, by its path or, as a witness, by another.
func (t *questions) probe(q *question, d *destination, path int, witness bool) {
	id := t.first + uint32(len(t.probes))
	t.probes = append(t.probes, asked{q, d, path, q.host, t.now, witness})
	t.ready.Ask = append(t.ready.Ask, Ask{id & (1<<24 - 1), q.host, t.label(d, path)})
	t.stats.PathProbes++
	// Answers to old ones are of no use.
	drop := 0
	for _, a := range t.probes {
		if a.q != nil && t.now-a.at <= 16*t.askWait(a.d, a.path) {
			break
		}
		drop++
	}
	if drop >= len(t.probes)/2 {
		t.probes = append(t.probes[:0], t.probes[drop:]...)
		t.first += uint32(drop)
	}
}

// askWitnesses sends probes to the same host by other paths: by other uplinks first, and among these by such that
// are not known to be silent.
func (t *questions) askWitnesses(q *question, most int) {
	d, own := q.d, q.d.uplink(q.path)
	sent := 0
	for _, other := range []bool{true, false} {
		start := int(t.order(d, q.path) % uint64(d.paths))
		last := -1
		for i := range d.paths {
			path := (start + i) % d.paths
			uplink := d.uplink(path)
			if sent >= most || path == q.path || uplink == last || (uplink != own && !d.dead.get(path)) != other {
				continue
			}
			last = uplink // one by each uplink
			sent++
			t.probe(q, d, path, true)
		}
	}
	t.tat += t.fabric.Spec().HostLink.Rate.TimeFor(askFrame*askShare) * fabric.Time(sent)
}

// take returns the probe that a host has answered, once.
func (t *questions) take(peer fabric.NodeID, id uint32) (a asked, ok bool) {
	i := (id - t.first) & (1<<24 - 1)
	if int(i) >= len(t.probes) || t.probes[i].q == nil || t.probes[i].host != peer {
		return asked{}, false
	}
	a, t.probes[i].q = t.probes[i], nil
	t.noteAnswer(a.d, a.path, a.host)
	return a, true
}
