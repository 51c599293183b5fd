package controller

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
)

// PortRate processes the speed reported by one end of a link; 0, or at least the link's full rate, means full rate.
// A link has the rate of its slower end. Agents are notified. Tables do not change: traffic without labels uses a
// slow link by ECMP's share. For a port that the fabric does not have, it returns an error and changes nothing.
func (c *Core) PortRate(node fabric.NodeID, port fabric.PortNo, rate fabric.Rate) error {
	id, ok := c.f.LinkAt(node, port)
	if !ok {
		return c.unknownPort(node, port)
	}
	l, ends := &c.links[id], c.f.Link(id)
	was := l.rate()
	if rate >= ends.Rate {
		rate = 0
	}
	if ends.A == (fabric.End{Node: node, Port: port}) {
		l.rates[0] = rate
	} else {
		l.rates[1] = rate
	}
	if l.rate() == was {
		return nil
	}
	l.rateEpoch++
	c.epoch++
	c.notices = append(c.notices, &statepb.Update{
		Epoch: c.epoch, Instance: c.cfg.Instance, Rates: []*statepb.LinkRate{c.linkRate(id)},
	})
	return nil
}

// rate returns a link's rate; 0: its full rate.
func (l *link) rate() fabric.Rate {
	a, b := l.rates[0], l.rates[1]
	if a > 0 && b > 0 {
		return min(a, b)
	}
	return max(a, b)
}

func (c *Core) linkRate(id fabric.LinkID) *statepb.LinkRate {
	l := &c.links[id]
	return &statepb.LinkRate{Link: uint32(id), BitsPerSecond: uint64(l.rate()), Epoch: l.rateEpoch}
}
