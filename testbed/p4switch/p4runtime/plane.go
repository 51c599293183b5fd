package p4runtime

import "sync"

// plane is the data path's lock as requests take it. A packet waits for at most
// maxHold units of a request's work, but where the request must not be seen half
// done; a unit is about what one cell of an array costs.
type plane struct {
	mu    sync.Locker // nil: packets and requests come one after the other
	units int         // done since packets could last pass
	whole bool        // packets must not pass until unlock
}

// maxHold is in units.
const maxHold = 256

// updateUnits is what one update counts for.
const updateUnits = 16

func (p *plane) lock() {
	if p.mu != nil {
		p.mu.Lock()
	}
	p.units = 0
}

func (p *plane) unlock() {
	p.whole = false
	if p.mu != nil {
		p.mu.Unlock()
	}
}

// did counts work under the lock and lets packets pass when it was enough.
func (p *plane) did(units int) {
	if p.units += units; p.units < maxHold || p.whole {
		return
	}
	p.units = 0
	switch mu := p.mu.(type) {
	case nil:
	case interface{ Yield() }:
		mu.Yield()
	default:
		mu.Unlock()
		mu.Lock()
	}
}
