package virtual

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// servers moves messages inside servers. A GPU sends one message at a time over its internal link, in the order of
// posting. When a NIC's link is cut, messages move to another NIC of the server: see failover.go.
type servers struct {
	scenario.Servers
	free     []fabric.Time // by rank: when its internal link is free
	failover *failover     // nil: no host's link fails
}

func newServers(run scenario.Run) servers {
	s := servers{Servers: run.Scenario.Servers}
	if s.Grouped() {
		s.free = make([]fabric.Time, run.Fabric.Hosts())
		s.failover = newFailover(run)
	}
	return s
}

// host returns the host of a rank.
func (w *world) host(rank int) *hostShell { return w.hosts[w.servers.Host(w.f, rank)] }

// post carries out a send of the collective: through its rank's batching window, over its server's links, or both.
func (w *world) post(now fabric.Time, s collective.Send) {
	if !w.servers.Grouped() {
		w.postTo(now, w.hosts[s.Src], w.host(s.Dst), s)
		return
	}
	from, _ := w.servers.Server(s.Src)
	to, _ := w.servers.Server(s.Dst)
	relay := w.servers.Relay(s.Src, s.Dst)
	switch {
	case from == to:
		w.moveInServer(now, s.Src, s.Bytes, func(now fabric.Time) { w.endMoveInServer(now, s) })
	case w.servers.failover != nil:
		w.assignNICs(now, s)
	case relay != s.Src:
		w.moveInServer(now, s.Src, s.Bytes, func(now fabric.Time) { w.postTo(now, w.host(relay), w.host(s.Dst), s) })
	default:
		w.postTo(now, w.host(s.Src), w.host(s.Dst), s)
	}
}

// moveInServer sends bytes over a rank's internal link.
func (w *world) moveInServer(now fabric.Time, rank int, bytes int64, then func(now fabric.Time)) {
	link := w.servers.Link()
	free := &w.servers.free[rank]
	*free = max(*free, now) + link.Rate.TimeFor(bytes)
	w.net.At(*free+link.Delay, then)
}

// endMoveInServer ends a message that stays in its server.
func (w *world) endMoveInServer(now fabric.Time, s collective.Send) {
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
