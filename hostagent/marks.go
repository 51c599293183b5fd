package hostagent

import (
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// marks are the times of the latest marks of packets to a ToR. Both slices are nil before the first mark.
type marks struct {
	last fabric.Time
	by   []fabric.Time // by uplink
	to   []fabric.Time // by host of the ToR
}

// Congested reports an ECN mark on the path with label l: of a packet to host peer or, if inbound, from it. Packets
// sent on the path until then that are lost are no reason to leave it.
func (c *Core) Congested(now fabric.Time, peer fabric.NodeID, l fabric.Label, inbound bool) {
	c.advance(now)
	if inbound {
		c.losses.inboundMarkAt = c.now // acknowledgements of all peers come by the same link
		return
	}
	if !c.hasPathChoice(peer) {
		return
	}
	d := c.towards(peer)
	path, ok := c.pathOf(d, l)
	c.losses.marked(d, peer)
	if ok {
		d.marks.by[d.uplink(path)] = c.now
		c.slow.noteMark(d, path, peer)
	}
}

// marked records a mark of a packet to a host.
func (ls *losses) marked(d *destination, host fabric.NodeID) {
	first, hosts := ls.fabric.HostsOf(d.tor)
	if d.marks.to == nil {
		d.marks.by, d.marks.to = allLongAgo(ls.uplinkSlots), allLongAgo(hosts)
	}
	d.marks.last, d.marks.to[host-first] = ls.now, ls.now
}

// noCongestion reports whether congestion on the way to d, or a lack of processors, cannot have caused a time-out.
func (ls *losses) noCongestion(d *destination) bool {
	return ls.now-d.marks.last >= ls.cfg.Calm && !ls.cfg.Losses.Pauses && !ls.starved()
}

func (m *marks) rebase(now fabric.Time) {
	m.last = m.last.Rebase(now)
	for _, times := range [][]fabric.Time{m.by, m.to} {
		for i := range times {
			times[i] = times[i].Rebase(now)
		}
	}
}

func allLongAgo(n int) []fabric.Time {
	return slices.Repeat([]fabric.Time{fabric.LongAgo}, n)
}

// lossExcused reports whether a packet on a path was marked since a time: one to the same ToR by the same uplink, or
// one to the same host, whose link is on all paths to it. Where processors lack, every loss is excused.
func (ls *losses) lossExcused(s hostPath, since fabric.Time) bool {
	if s.d.marks.to == nil || ls.starved() {
		return ls.starved()
	}
	first, _ := ls.fabric.HostsOf(s.d.tor)
	return max(s.d.marks.by[s.d.uplink(s.path)], s.d.marks.to[s.host-first]) >= since
}
