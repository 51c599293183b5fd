package hostagent

import (
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// doubt is a path, or an uplink, that may be slow: its packets are marked and it delivers less than another. That can
// also be because of the destination, or because its queue pairs send less. So two probes are sent to one host in the
// data's class, by this path and by the other, at the same time. If the one by this path takes twice as long, and two
// idle round trips longer, its queues are longer than the other's. The path is slow if that is so slowProofs times.
type doubt struct {
	what          slowVerdict
	d             *destination
	path          int
	to            uint32 // share of a full path's load that remains if it is slow
	probe, beside QP     // by this path, by the other; beside is 0 once it is answered
	at            fabric.Time
	due           fabric.Time // when to conclude; until beside is answered: to give up
	asked         int         // number of pairs of probes
	host          fabric.NodeID
	other         int // path of the probe beside
}

// slowProofs is the number of pairs of probes, one after the other, that must find a path slow. Queues of a healthy
// fabric differ for a while.
const slowProofs = 3

// maxDoubts is the number of doubts at a time.
const maxDoubts = 64

// doubt sends the probes of a new doubt to a host, the second one by another path.
func (sl *slowPaths) doubt(x doubt, host fabric.NodeID, other int) {
	same := func(o *doubt) bool {
		if x.what == uplinkSlow || o.what == uplinkSlow {
			return o.what == x.what && o.d.uplink(o.path) == x.d.uplink(x.path)
		}
		return o.d == x.d && o.path == x.path
	}
	if other < 0 || other == x.path || len(sl.doubts) >= maxDoubts || slices.ContainsFunc(sl.doubts, same) {
		return
	}
	x.host, x.other = host, other
	sl.ask(&x)
	sl.stats.Doubts++
	sl.doubts = append(sl.doubts, &x)
}

// ask sends a pair of probes.
func (sl *slowPaths) ask(x *doubt) {
	x.asked++
	x.at, x.due = sl.now, sl.now+sl.cfg.Slow.Memory
	x.probe, x.beside = sl.openProbe(sample{x.d, x.path, x.host}), sl.openProbe(sample{x.d, x.other, x.host})
}

// probeDone processes the answer to a probe. ok is false if qp is none of a doubt.
func (sl *slowPaths) probeDone(qp QP) (ok bool) {
	for i, x := range sl.doubts {
		switch qp {
		case x.probe:
			sl.doubts = slices.Delete(sl.doubts, i, i+1)
			return true
		case x.beside:
			x.beside, x.due = 0, sl.now+max(2*x.d.trip, sl.now-x.at)
			return true
		}
	}
	return false
}

// confirmed removes a doubt that is due and returns it. ok is false if none is due that is confirmed.
func (sl *slowPaths) confirmed() (x doubt, ok bool) {
	for i := 0; i < len(sl.doubts); {
		x := sl.doubts[i]
		if x.due > sl.now {
			i++
			continue
		}
		if x.beside == 0 && x.asked < slowProofs {
			x.other = sl.anotherBeside(x)
			sl.ask(x)
			continue
		}
		sl.doubts = slices.Delete(sl.doubts, i, i+1)
		if x.beside == 0 {
			return *x, true
		}
	}
	return doubt{}, false
}

// anotherBeside returns the next good path, after the one beside a doubted path, that begins with another uplink than
// the doubted one; if there is none, the same again.
func (sl *slowPaths) anotherBeside(x *doubt) int {
	for i := 1; i < x.d.paths; i++ {
		if p := (x.other + i) % x.d.paths; x.d.uplink(p) != x.d.uplink(x.path) && x.d.isGood(p) {
			return p
		}
	}
	return x.other
}

// deadline returns the time at which the next doubt is due.
func (sl *slowPaths) deadline() fabric.Time {
	at := fabric.Never
	for _, x := range sl.doubts {
		at = min(at, x.due)
	}
	return at
}

// pathBy returns a good path to d by an uplink; -1: there is none.
func (sl *slowPaths) pathBy(d *destination, uplink int) int {
	by := -1
	d.each(span{u: uplink, n: 1, v: -1}, func(p int) {
		if by < 0 && d.isGood(p) {
			by = p
		}
	})
	return by
}

// decideSlow lowers the shares of paths and uplinks that proved to be slow, and moves pieces off them.
func (c *Core) decideSlow() {
	for x, ok := c.slow.confirmed(); ok; x, ok = c.slow.confirmed() {
		d, uplink := x.d, x.d.uplink(x.path)
		switch x.what {
		case uplinkSlow:
			c.slow.lower(c.slow.byUplink, uplink, uplink, x.to)
		case pathBehind:
			if x.to < d.slow.share(x.path, c.now, c.cfg.Slow.Memory) {
				c.slow.lower(d.slow, x.path, uplink, x.to)
				c.slow.blameUplink(d, x.path)
			}
		default:
			c.slow.lower(d.slow, x.path, uplink, x.to)
		}
		c.unloadSlow(d, x.path, x.what)
	}
}
