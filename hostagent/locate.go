package hostagent

import (
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Two dead paths name a link: the last one that both use, if no path over it has answered since. Then all paths over
// it are left, also those to ToRs to which this host has not sent. One of these is asked, so that a wrong conclusion is
// found: an answer by a path over the link acquits it.

// locate looks for the link that a dead path has in common with an earlier one.
func (c *Core) locate(q *question) {
	own := c.linksOf(q.d, q.path, q.host)
	for _, o := range c.questions.dead {
		if o == q {
			continue
		}
		theirs := c.linksOf(o.d, o.path, o.host)
		for _, id := range slices.Backward(own) {
			if !slices.Contains(theirs, id) || !c.hasChoice(uint32(id)) {
				continue
			}
			if !slices.Contains(c.questions.links, id) && !c.answeredOver(id, q.since) {
				c.convict(id)
			}
			break
		}
	}
}

// linksOf returns the links of a path to a host, from this host on.
func (c *Core) linksOf(d *destination, path int, host fabric.NodeID) []fabric.LinkID {
	hops, ok := c.fabric.Way(nil, c.cfg.Host, host, c.label(d, path))
	if !ok {
		return nil
	}
	links := make([]fabric.LinkID, len(hops))
	for i, h := range hops {
		links[i] = h.Link
	}
	return links
}

// answeredOver reports whether some path over a link has answered since a time.
func (c *Core) answeredOver(id fabric.LinkID, since fabric.Time) bool {
	for _, d := range c.destinations {
		if s, ok := c.over(d, id); ok {
			answered := false
			d.each(s, func(path int) { answered = answered || d.answered[path] >= since })
			if answered {
				return true
			}
		}
	}
	return false
}

// convict treats a link as dead.
func (c *Core) convict(id fabric.LinkID) {
	c.stats.LinksConvicted++
	c.questions.links = append(c.questions.links, id)
	c.link(id).silent = true
	c.mark(id)
	for _, d := range c.destinations {
		if s, ok := c.over(d, id); ok && d.first != nil {
			asked := false
			d.each(s, func(path int) {
				if !asked && !d.asked.get(path) {
					asked = true
					c.ask(c.question(sample{d, path, d.first.host}))
				}
			})
			if asked {
				return
			}
		}
	}
}

// acquit treats the links of a path that has answered as alive.
func (c *Core) acquit(d *destination, path int, host fabric.NodeID) {
	for _, id := range slices.Clone(c.questions.links) {
		if slices.Contains(c.linksOf(d, path, host), id) {
			c.absolve(id)
			c.mark(id)
			c.movePieces(Return)
		}
	}
}

// absolve forgets this host's conclusion about a link.
func (c *Core) absolve(id fabric.LinkID) {
	if i := slices.Index(c.questions.links, id); i >= 0 {
		c.questions.links = slices.Delete(c.questions.links, i, i+1)
		c.links[id].silent = false
	}
}
