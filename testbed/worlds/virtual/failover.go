package virtual

import (
	"fmt"
	"maps"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// failover moves messages off NICs whose link is cut, to other NICs of the same servers, as NCCL 2.30 and R2CCL do.
// Both servers of a message learn of the cut when the link's ends detect it, whatever the notifier: a NIC's driver sees
// the loss of carrier, and tells the other side over the servers' own network. A message continues with the first piece
// that has not arrived whole. It does not return when the link is restored; later messages use it again.
type failover struct {
	dead          map[fabric.NodeID]bool           // hosts whose link is known to be cut
	assignments   map[collective.ID]*nicAssignment // messages between servers that are not complete
	strayMessages map[collective.ID]struct{}       // messages of which a former NIC's packets may still arrive
}

// nicAssignment is the present assignment of a message to NICs: the ranks whose NICs send and receive it.
type nicAssignment struct {
	send     collective.Send // with the bytes that are missing
	from, to int
	posted   bool // the sending NIC has it
	// Of the whole message, once it was posted the first time.
	bytes int64
	first fabric.Time
}

// newFailover returns nil if no host's link fails in the run.
func newFailover(run scenario.Run) *failover {
	if !slices.ContainsFunc(run.Events, func(e scenario.LinkEvent) bool { return int(e.Link) < run.Fabric.HostLinks() }) {
		return nil
	}
	return &failover{
		dead: map[fabric.NodeID]bool{}, assignments: map[collective.ID]*nicAssignment{}, strayMessages: map[collective.ID]struct{}{},
	}
}

func (w *world) alive(rank int) bool { return !w.servers.failover.dead[w.servers.Host(w.f, rank)] }

// nics returns the ranks whose NICs carry a message: its own, or the next of their servers that are alive. On rails
// both ends take the same one, so that a message stays on one rail. If a server has none, its own stays.
func (w *world) nics(s collective.Send) (from, to int) {
	from, to = w.servers.Relay(s.Src, s.Dst), s.Dst
	n := w.servers.GPUs
	next := func(rank, by int) int { return rank/n*n + (rank%n+by)%n }
	if w.servers.Wiring == scenario.Rail {
		for by := range n {
			if a, b := next(from, by), next(to, by); w.alive(a) && w.alive(b) {
				return a, b
			}
		}
	}
	pick := func(rank int) int {
		for by := range n {
			if w.alive(next(rank, by)) {
				return next(rank, by)
			}
		}
		return rank
	}
	return pick(from), pick(to)
}

// assignNICs sends a message, or the unsent part of one, between servers.
func (w *world) assignNICs(now fabric.Time, s collective.Send) {
	c := w.servers.failover.assignments[s.ID]
	if c == nil {
		c = &nicAssignment{bytes: s.Bytes, first: now}
		w.servers.failover.assignments[s.ID] = c
	}
	c.send, c.posted = s, false
	c.from, c.to = w.nics(s)
	if c.from == s.Src {
		w.leave(now, c)
		return
	}
	w.moveInServer(now, s.Src, s.Bytes, func(now fabric.Time) { w.leave(now, c) })
}

// leave posts a message at the NIC that carries it.
func (w *world) leave(now fabric.Time, c *nicAssignment) {
	if from, to := w.nics(c.send); from != c.from || to != c.to { // a link was cut, or restored, on the way to the NIC
		if !w.alive(c.from) || !w.alive(c.to) {
			w.assignNICs(now, c.send)
			return
		}
	}
	c.posted = true
	w.postTo(now, w.host(c.from), w.host(c.to), c.send)
	a := w.host(c.to).arriving[c.send.ID]
	a.bytes, a.posted = c.bytes, c.first
	w.host(c.to).arriving[c.send.ID] = a
}

// nicChanged moves the messages of a NIC whose link was cut.
func (w *world) nicChanged(now fabric.Time, e scenario.LinkEvent) {
	x := w.servers.failover
	if x == nil || int(e.Link) >= w.f.HostLinks() || e.Silent || w.net.IsDown(directions(e)[0]) == e.Up {
		return
	}
	host := w.f.Link(e.Link).A.Node
	if x.dead[host] = !e.Up; e.Up {
		return
	}
	n := 0
	for _, id := range slices.Sorted(maps.Keys(x.assignments)) {
		c := x.assignments[id]
		if !c.posted || w.host(c.from).id != host && w.host(c.to).id != host {
			continue
		}
		if from, to := w.nics(c.send); from == c.from && to == c.to {
			continue // no other NIC is left
		}
		n++
		w.redirect(now, c)
	}
	if n > 0 {
		w.note(now, report.KindDetect, w.f.Name(host), fmt.Sprintf("%s moved to other NICs of the servers", fabric.Count(n, "message")))
	}
}

// redirect cancels a message at its NICs, and sends the missing bytes by others.
func (w *world) redirect(now fabric.Time, c *nicAssignment) {
	id, from, to := c.send.ID, w.host(c.from), w.host(c.to)
	from.core.Abandon(now, uint64(id))
	w.servers.failover.strayMessages[id] = struct{}{}
	a, missing := to.arriving[id]
	if !missing { // the last acknowledgement is lost
		from.Sent(now, uint64(id))
		return
	}
	delete(to.arriving, id)
	rest := c.send
	rest.Bytes = a.left
	w.assignNICs(now, rest)
}

// strays reports whether bytes of a message belong to a NIC that the message no longer uses.
func (h *hostShell) strays(src fabric.NodeID, id collective.ID) bool {
	x := h.w.servers.failover
	if x == nil {
		return false
	}
	_, moved := x.strayMessages[id]
	a, ok := h.arriving[id]
	return moved && (!ok || a.src != src)
}

// deliverToRank lets a message's rank continue that has arrived at this host: after its way over the server's links if
// the NIC is another GPU's.
func (h *hostShell) deliverToRank(now fabric.Time, id collective.ID) {
	if x := h.w.servers.failover; x != nil {
		if c := x.assignments[id]; c != nil && c.to != id.Dst() {
			h.w.moveInServer(now, c.to, c.send.Bytes, func(now fabric.Time) { h.w.host(id.Dst()).received(now, id) })
			return
		}
	}
	h.w.host(id.Dst()).received(now, id)
}
