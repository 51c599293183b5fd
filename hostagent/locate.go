package hostagent

import (
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Two dead paths name a link: the last one that both use, if no path over it has answered since. Then all paths over
// it are left, also those to ToRs to which this host has not sent. One of these is asked, so that a wrong conclusion is
// found: an answer by a path over the link acquits it.

// findCommonLink looks for the link that a dead path has in common with an earlier one.
func (t *questions) findCommonLink(q *question) {
	own := t.linksOf(q.d, q.path, q.host)
	for _, o := range t.dead {
		if o == q {
			continue
		}
		theirs := t.linksOf(o.d, o.path, o.host)
		for _, id := range slices.Backward(own) {
			if !slices.Contains(theirs, id) || !t.hasChoice(uint32(id)) {
				continue
			}
			if !slices.Contains(t.convictedLinks, id) && !t.answeredOver(id, q.since) {
				t.markLinkDead(id)
			}
			break
		}
	}
}

// answeredOver reports whether some path over a link has answered since a time.
func (t *questions) answeredOver(id fabric.LinkID, since fabric.Time) bool {
	for _, d := range t.destinations {
		if s, ok := t.pathsOver(d, id); ok {
			answered := false
			d.eachPath(s, func(path int) { answered = answered || d.answered[path] >= since })
			if answered {
				return true
			}
		}
	}
	return false
}

// markLinkDead treats a link as dead.
func (t *questions) markLinkDead(id fabric.LinkID) {
	t.stats.LinksConvicted++
	t.convictedLinks = append(t.convictedLinks, id)
	t.link(id).evidence |= probedDead
	t.markChanged(id)
	for _, d := range t.destinations {
		if s, ok := t.pathsOver(d, id); ok && d.first != nil {
			asked := false
			d.eachPath(s, func(path int) {
				if !asked && !d.asked.get(path) {
					asked = true
					t.ask(t.question(hostPath{d, path, d.first.host}))
				}
			})
			if asked {
				return
			}
		}
	}
}

// clearLink treats a link of a path that has answered as alive, and reports whether there was a convicted one.
func (t *questions) clearLink(a probeInFlight) bool {
	path := t.linksOf(a.d, a.path, a.host)
	i := slices.IndexFunc(t.convictedLinks, func(id fabric.LinkID) bool { return slices.Contains(path, id) })
	if i < 0 {
		return false
	}
	id := t.convictedLinks[i]
	t.forgetLink(id)
	t.markChanged(id)
	return true
}

// forgetLink forgets this host's conclusion about a link.
func (t *questions) forgetLink(id fabric.LinkID) {
	if i := slices.Index(t.convictedLinks, id); i >= 0 {
		t.convictedLinks = slices.Delete(t.convictedLinks, i, i+1)
		t.links[id].evidence &^= probedDead
	}
}
