package hostagent

import (
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Two dead paths name a link: the last one that both use, if no path over it has answered since. Then all paths over
// it are left, also those to ToRs to which this host has not sent. One of these is asked, so that a wrong conclusion is
// found: an answer by a path over the link acquits it.

// locate looks for the link that a dead path has in common with an earlier one.
func (t *questions) locate(q *question) {
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
			if !slices.Contains(t.convicts, id) && !t.answeredOver(id, q.since) {
				t.convict(id)
			}
			break
		}
	}
}

// answeredOver reports whether some path over a link has answered since a time.
func (t *questions) answeredOver(id fabric.LinkID, since fabric.Time) bool {
	for _, d := range t.destinations {
		if s, ok := t.over(d, id); ok {
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
func (t *questions) convict(id fabric.LinkID) {
	t.stats.LinksConvicted++
	t.convicts = append(t.convicts, id)
	t.link(id).evidence |= convicted
	t.mark(id)
	for _, d := range t.destinations {
		if s, ok := t.over(d, id); ok && d.first != nil {
			asked := false
			d.each(s, func(path int) {
				if !asked && !d.asked.get(path) {
					asked = true
					t.ask(t.question(sample{d, path, d.first.host}))
				}
			})
			if asked {
				return
			}
		}
	}
}

// acquit treats a link of a path that has answered as alive, and reports whether there was a convicted one.
func (t *questions) acquit(a asked) bool {
	path := t.linksOf(a.d, a.path, a.host)
	i := slices.IndexFunc(t.convicts, func(id fabric.LinkID) bool { return slices.Contains(path, id) })
	if i < 0 {
		return false
	}
	id := t.convicts[i]
	t.absolve(id)
	t.mark(id)
	return true
}

// absolve forgets this host's conclusion about a link.
func (t *questions) absolve(id fabric.LinkID) {
	if i := slices.Index(t.convicts, id); i >= 0 {
		t.convicts = slices.Delete(t.convicts, i, i+1)
		t.links[id].evidence &^= convicted
	}
}
