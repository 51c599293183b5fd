package virtual

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// servers moves messages inside servers. A GPU sends one message at a time over its internal link, in the order of
// posting.
type servers struct {
	scenario.Servers
	free []fabric.Time // by rank: when its internal link is free
}

func newServers(s scenario.Servers, ranks int) servers {
	if !s.On() {
		return servers{Servers: s}
	}
	return servers{Servers: s, free: make([]fabric.Time, ranks)}
}

// host returns the host of a rank.
func (w *world) host(rank int) *hostShell { return w.hosts[w.servers.Host(w.f, rank)] }

// post carries out a send of the collective: through its rank's batching window, over its server's links, or both.
func (w *world) post(now fabric.Time, s collective.Send) {
	if !w.servers.On() {
		w.postTo(now, w.hosts[s.Src], s)
		return
	}
	from, _ := w.servers.Server(s.Src)
	to, _ := w.servers.Server(s.Dst)
	relay := w.servers.Relay(s.Src, s.Dst)
	switch {
	case from == to:
		w.move(now, s, func(now fabric.Time) { w.moved(now, s) })
	case relay != s.Src:
		w.move(now, s, func(now fabric.Time) { w.postTo(now, w.host(relay), s) })
	default:
		w.postTo(now, w.host(s.Src), s)
	}
}

// move sends a message over its sender's internal link.
func (w *world) move(now fabric.Time, s collective.Send, then func(now fabric.Time)) {
	link := w.servers.Link()
	free := &w.servers.free[s.Src]
	*free = max(*free, now) + link.Rate.TimeFor(s.Bytes)
	w.net.At(*free+link.Delay, then)
}

// moved ends a message that stays in its server.
func (w *world) moved(now fabric.Time, s collective.Send) {
	if err := w.job.received(now, s.ID); err != nil {
		w.fail(err)
	}
	if err := w.job.sent(now, s.ID); err != nil {
		w.fail(err)
	}
	for _, rank := range []int{s.Src, s.Dst} {
		w.host(rank).checkFinished()
	}
}
