package controller

import "github.com/ethereal-fabric/ethereal/fabric"

// The multicast groups of notices: see p4src/v1model/notices.p4. They follow from the switch's place in the fabric,
// not from link states.
const (
	noGroupOfPorts = 0
	portsBelow     = 1 // multicast group: all ports towards hosts
	portsAll       = 2
)

// downPorts returns the number of ports that lead down; they come first.
func downPorts(n *fabric.Node) int { return int(n.FirstUplink()) - 1 }

func (c *Core) appendGroups(w *tableWriter, n *fabric.Node) {
	if !c.f.Clos() {
		w.addEntry(exactKey(MulticastGroup, portsAll), ReplicateTo, 1, uint64(n.Ports()))
		return
	}
	w.addEntry(exactKey(MulticastGroup, portsBelow), ReplicateTo, 1, uint64(downPorts(n)))
	if n.Tier == fabric.Aggregation {
		w.addEntry(exactKey(MulticastGroup, portsAll), ReplicateTo, 1, uint64(n.Ports()))
	}
}

// appendNotices writes the receivers of notices about a dead port: every host with a path through that port. For a
// port that leads up these are the hosts below. For a port that leads down they are all others: below the switch's
// other ports, and above, from where the switches of the top tier pass the notice down. A port to a host has no
// alternative, so nobody is notified, and no notice is accepted from it.
//
// In a dragonfly, packets of any host may use any link, so each switch passes a notice on to all its neighbours.
func (c *Core) appendNotices(w *tableWriter, n *fabric.Node) {
	if !c.f.Clos() {
		_, hosts := c.f.HostsOf(n.ID)
		for p := hosts; p < n.Ports(); p++ {
			w.addEntry(exactKey(Notice, uint64(p+1)), SendNotices, portsAll, portsAll)
		}
		return
	}
	for p := range n.Ports() {
		own, passed := uint64(portsBelow), uint64(portsBelow)
		if p < downPorts(n) {
			switch n.Tier {
			case fabric.ToR:
				continue
			case fabric.Aggregation:
				own, passed = portsAll, noGroupOfPorts
			}
		}
		w.addEntry(exactKey(Notice, uint64(p+1)), SendNotices, own, passed)
	}
}
