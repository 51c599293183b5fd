package linkstate

import (
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Each change of a port is an update to every agent and a record in the event log. So if a switch reports changes
// of one port without end, the first few are passed on, then one per interval.
const (
	paceBurst    = 8
	paceInterval = time.Second
)

// pacer limits the rate at which changes of one port are passed on. The last change always is.
type pacer struct {
	lastChanges map[paceKey]*heldChange
	waiting     map[paceKey]Change
	due         time.Time // when to call flush, if changes wait
}

type paceKey struct {
	port  fabric.PortNo
	speed bool
}

// heldChange is the limiter's state of one port.
type heldChange struct {
	last Change
	// credit is the time until which the passed changes would have lasted at one per interval: the generic cell
	// rate algorithm of ITU-T I.371.
	credit time.Time
}

// admit returns the changes to pass on now.
func (p *pacer) admit(now time.Time, changes []Change) (out []Change) {
	for _, c := range changes {
		k := paceKey{c.Port, c.Speed}
		if _, waits := p.waiting[k]; !waits && p.mayPass(k, now) {
			out = append(out, p.passOn(k, now, c))
			continue
		}
		if p.waiting == nil {
			p.waiting = map[paceKey]Change{}
		}
		if len(p.waiting) == 0 {
			p.due = now.Add(paceInterval)
		}
		p.waiting[k] = c
	}
	return out
}

// flush returns the changes that have waited long enough.
func (p *pacer) flush(now time.Time) (out []Change) {
	if len(p.waiting) == 0 || now.Before(p.due) {
		return nil
	}
	for k, c := range p.waiting {
		last := p.lastChanges[k].last
		if last.Up == c.Up && last.Rate == c.Rate {
			delete(p.waiting, k)
		} else if p.mayPass(k, now) {
			delete(p.waiting, k)
			out = append(out, p.passOn(k, now, c))
		}
	}
	p.due = now.Add(paceInterval)
	return out
}

func (p *pacer) mayPass(k paceKey, now time.Time) bool {
	x := p.lastChanges[k]
	return x == nil || !now.Before(x.credit.Add(-(paceBurst-1)*paceInterval))
}

func (p *pacer) passOn(k paceKey, now time.Time, c Change) Change {
	if p.lastChanges == nil {
		p.lastChanges = map[paceKey]*heldChange{}
	}
	x := p.lastChanges[k]
	if x == nil {
		x = &heldChange{}
		p.lastChanges[k] = x
	}
	if x.credit.Before(now) {
		x.credit = now
	}
	x.credit = x.credit.Add(paceInterval)
	x.last = c
	return c
}
