package hostagent

import (
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// doubt is a path, or an uplink, that may be slow: its packets are marked and it delivers less than another. That can
// also be because of the destination, or because its queue pairs send less. So two probes are sent to one host in the
// data's class, by this path and by the other, at the same time. If the one by this path takes twice as long, and two
// idle round trips longer, the path is slow: its queues are longer than the other's.
type doubt struct {
	what          slowVerdict
	d             *destination
	path          int
	to            uint32 // share of a full path's load that remains if it is slow
	probe, beside QP     // by this path, by the other; beside is 0 once it is answered
	at            fabric.Time
	due           fabric.Time // when to conclude; until beside is answered: to give up
}

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
	x.at, x.due = sl.now, sl.now+sl.cfg.Slow.Memory
	x.probe, x.beside = sl.openProbe(sample{x.d, x.path, host}), sl.openProbe(sample{x.d, other, host})
	sl.stats.Doubts++
	sl.doubts = append(sl.doubts, &x)
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
		sl.doubts = slices.Delete(sl.doubts, i, i+1)
		if x.beside == 0 {
			return *x, true
		}
	}
	return doubt{}, false
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
