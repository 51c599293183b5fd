package hostagent

import (
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// marks are the times of the latest marks of packets to a ToR. Both slices are nil before the first mark.
type marks struct {
	last fabric.Time
	by   []fabric.Time // by way
	to   []fabric.Time // by host of the ToR
}

// Congested reports that a switch has marked a packet to a peer, or one from it, on a path. Losses on that path of
// packets sent until then are no reason to leave it.
func (c *Core) Congested(now fabric.Time, peer fabric.NodeID, l fabric.Label, inbound bool) {
	c.advance(now)
	if inbound {
		c.markedIn = c.now // acknowledgements of all peers come by the same link
		return
	}
	if !c.choice(peer) {
		return
	}
	d := c.towards(peer)
	if d.marks.to == nil {
		_, hosts := c.fabric.HostsOf(d.tor)
		d.marks.by, d.marks.to = longAgo(c.ways), longAgo(hosts)
	}
	first, _ := c.fabric.HostsOf(d.tor)
	d.marks.last, d.marks.to[peer-first] = c.now, c.now
	if path, ok := c.pathOf(d, l); ok {
		d.marks.by[d.way(path)] = c.now
		c.noteMark(d, path, peer)
	}
}

func (m *marks) rebase(now fabric.Time) {
	m.last = m.last.Rebase(now)
	for _, times := range [][]fabric.Time{m.by, m.to} {
		for i := range times {
			times[i] = times[i].Rebase(now)
		}
	}
}

func longAgo(n int) []fabric.Time {
	return slices.Repeat([]fabric.Time{fabric.LongAgo}, n)
}

// excused reports whether a packet on a path was marked since a time: one to the same ToR by the same uplink, or
// one to the same host, whose link is on all paths to it.
func (c *Core) excused(s sample, since fabric.Time) bool {
	if s.d.marks.to == nil {
		return false
	}
	first, _ := c.fabric.HostsOf(s.d.tor)
	return max(s.d.marks.by[s.d.way(s.path)], s.d.marks.to[s.host-first]) >= since
}
