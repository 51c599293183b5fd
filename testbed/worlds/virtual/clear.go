package virtual

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// clearances hold messages back until their receivers have reached the same step, as NCCL does, whose sender waits
// for the receiver's buffer. So the message of a later step does not share the receiver's link with one of an
// earlier step, for which the receiver waits. They belong to no host.
type clearances struct {
	w            *world
	reachedAt    map[rankStep]fabric.Time       // when a rank reached a step by posting its sends
	waitingSends map[rankStep][]collective.Send // by receiver
}

type rankStep struct{ rank, step int }

func newClearances(w *world) *clearances {
	return &clearances{w, map[rankStep]fabric.Time{}, map[rankStep][]collective.Send{}}
}

// posted processes a message that its sender has posted.
func (c *clearances) posted(now fabric.Time, s collective.Send) {
	from, to := rankStep{s.Src, s.Step}, rankStep{s.Dst, s.Step}
	if _, came := c.reachedAt[from]; !came {
		c.reachedAt[from] = now
		for _, h := range c.waitingSends[from] {
			c.send(now, h)
		}
		delete(c.waitingSends, from)
	}
	if _, came := c.reachedAt[to]; came {
		c.send(now, s)
	} else {
		c.waitingSends[to] = append(c.waitingSends[to], s)
	}
}

func (c *clearances) send(now fabric.Time, s collective.Send) {
	c.w.net.At(now+c.w.late.ClearToSendDelay(), func(now fabric.Time) { c.w.post(now, s) })
}
