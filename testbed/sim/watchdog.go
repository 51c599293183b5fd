package sim

import "github.com/ethereal-fabric/ethereal/fabric"

// watchdogs end what a storm of pauses does to a fabric, as SONiC's PFC watchdog with its
// action drop: a port of a switch that has been paused for a time without a break drops the
// data that waits there and all that joins it, until it has not been paused for as long.
// What comes in by the port goes on; SONiC drops that as well.
type watchdogs struct {
	after fabric.Time
	ports []watchedPort // by the direction they send in
}

type watchedPort struct {
	since  fabric.Time // it has been paused, or not, since then
	paused bool
	drops  bool
	armed  bool // an event is pending
}

func newWatchdogs(c Config) *watchdogs {
	if c.PFC.Watchdog == 0 {
		return nil
	}
	return &watchdogs{after: c.PFC.Watchdog, ports: make([]watchedPort, 2*c.Fabric.Links())}
}

// drops reports whether a port drops data. w may be nil.
func (w *watchdogs) drops(dir LinkDir) bool { return w != nil && w.ports[dir].drops }

// watch is called when a switch's port is paused, and when no longer. There is one pending event for a
// port, however often that changes.
func (r *region) watch(dir LinkDir, paused bool) {
	p := &r.flow.guard.ports[dir]
	if p.paused == paused {
		return
	}
	p.paused, p.since = paused, r.now
	if !p.armed {
		p.armed = true
		r.queue.push(eventOf(r.now+r.flow.guard.after, eventWatch, uint32(dir), 0))
	}
}

// watchdog processes a watch event: it checks whether the port has been in its state for long enough.
func (r *region) watchdog(dir LinkDir) {
	p := &r.flow.guard.ports[dir]
	p.armed = false
	if p.paused == p.drops {
		return
	}
	if due := p.since + r.flow.guard.after; due > r.now {
		p.armed = true
		r.queue.push(eventOf(due, eventWatch, uint32(dir), 0))
		return
	}
	if p.drops = p.paused; p.drops {
		r.flush(dir)
	}
}

// flush drops the data that waits at a switch's port.
func (r *region) flush(dir LinkDir) {
	d := &r.dirs[dir]
	q, s := &d.queues, r.switchAt(d.from)
	q.account(r.now)
	for q.classes[0].head != 0 {
		id, p := q.classes[0].pop(r.pool)
		from, length := p.from, int64(p.length)
		s.used -= length
		q.classes[0].bytes -= p.length
		if p.is&inPlace == 0 {
			s.pipeline.Free(p.handle())
		}
		d.counters.Dropped++
		r.drop(d.from, dir, DropWatchdog, id, p)
		r.uncountQueued(d.from, s, from, length)
	}
	d.nonEmpty &^= 1
}
