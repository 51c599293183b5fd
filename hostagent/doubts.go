package hostagent

import (
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// slowCheck is a path, or an uplink, that may be slow: its packets are marked and it delivers less than another. That
// can also be because of the destination, or because its queue pairs send less. So two probes are sent to one host in
// the data's class, by this path and by the other, at the same time. If the one by this path takes twice as long, and
// two idle round trips longer, its queues are longer than the other's. The path is slow if that is so slowProofs times.
type slowCheck struct {
	what              slowVerdict
	d                 *destination
	path              int
	remainingShare    uint32 // share of a full path's load that remains if it is slow
	probe, otherProbe QP     // by this path, by the other; otherProbe is 0 once it is answered
	at                fabric.Time
	due               fabric.Time // when to conclude; until otherProbe is answered: to give up
	asked             int         // number of pairs of probes
	host              fabric.NodeID
	other             int // path of otherProbe
}

// slowProofs is the number of pairs of probes, one after the other, that must find a path slow. Queues of a healthy
// fabric differ for a while.
const slowProofs = 3

// maxSlowChecks is the number of slowChecks at a time.
const maxSlowChecks = 64

// startCheck sends the probes of a new doubt to a host, the second one by another path.
func (sl *slowPaths) startCheck(x slowCheck, host fabric.NodeID, other int) {
	same := func(o *slowCheck) bool {
		if x.what == uplinkSlow || o.what == uplinkSlow {
			return o.what == x.what && o.d.uplink(o.path) == x.d.uplink(x.path)
		}
		return o.d == x.d && o.path == x.path
	}
	if other < 0 || other == x.path || len(sl.checks) >= maxSlowChecks || slices.ContainsFunc(sl.checks, same) {
		return
	}
	x.host, x.other = host, other
	sl.ask(&x)
	sl.stats.Doubts++
	sl.checks = append(sl.checks, &x)
}

// ask sends a pair of probes.
func (sl *slowPaths) ask(x *slowCheck) {
	x.asked++
	x.at, x.due = sl.now, sl.now+sl.cfg.Slow.Memory
	x.probe, x.otherProbe = sl.openProbe(hostPath{x.d, x.path, x.host}), sl.openProbe(hostPath{x.d, x.other, x.host})
}

// probeDone processes the answer to a probe. ok is false if qp is none of a doubt.
func (sl *slowPaths) probeDone(qp QP) (ok bool) {
	for i, x := range sl.checks {
		switch qp {
		case x.probe:
			sl.checks = slices.Delete(sl.checks, i, i+1)
			return true
		case x.otherProbe:
			x.otherProbe, x.due = 0, sl.now+max(2*x.d.trip, sl.now-x.at)
			return true
		}
	}
	return false
}

// confirmed removes a doubt that is due and returns it. ok is false if none is due that is confirmed.
func (sl *slowPaths) confirmed() (x slowCheck, ok bool) {
	for i := 0; i < len(sl.checks); {
		x := sl.checks[i]
		if x.due > sl.now {
			i++
			continue
		}
		if x.otherProbe == 0 && x.asked < slowProofs {
			x.other = sl.anotherBeside(x)
			sl.ask(x)
			continue
		}
		sl.checks = slices.Delete(sl.checks, i, i+1)
		if x.otherProbe == 0 {
			return *x, true
		}
	}
	return slowCheck{}, false
}

// anotherBeside returns the next good path, after the one beside a doubted path, that begins with another uplink than
// the doubted one; if there is none, the same again.
func (sl *slowPaths) anotherBeside(x *slowCheck) int {
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
	for _, x := range sl.checks {
		at = min(at, x.due)
	}
	return at
}

// pathByUplink returns a good path to d by an uplink; -1: there is none.
func (sl *slowPaths) pathByUplink(d *destination, uplink int) int {
	by := -1
	d.eachPath(pathSet{firstUplink: uplink, uplinkCount: 1, aggUplink: -1}, func(p int) {
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
			c.slow.lowerShare(c.slow.byUplink, uplink, uplink, x.remainingShare)
		case pathBehind:
			if x.remainingShare < d.slow.share(x.path, c.now, c.cfg.Slow.Memory) {
				c.slow.lowerShare(d.slow, x.path, uplink, x.remainingShare)
				c.slow.blameUplink(d, x.path)
			}
		default:
			c.slow.lowerShare(d.slow, x.path, uplink, x.remainingShare)
		}
		c.unloadSlow(d, x.path, x.what)
	}
}
