package report

// card says in one glance how a scheme does on a collective: on the healthy
// fabric against the bound, and under each failure against itself.
type card struct {
	Class, Scheme, Operation string
	Big, BigNote             string
	Bad                      bool // did not finish
	Lines                    []cardLine
}

type cardLine struct {
	Label, Value string
	Bad          bool // did not finish
}

// cards returns a card for each collective and scheme. The healthy case is the
// one with notifier none.
func cards(rs []*Result) []card {
	schemes := distinct(rs, func(r *Result) string { return r.Scheme })
	all := sections(rs)
	var out []card
	for _, op := range distinct(rs, (*Result).operation) {
		for i, scheme := range schemes {
			c := card{Class: schemeClass(i), Scheme: scheme, Operation: op}
			var healthy spread
			for _, s := range all {
				for _, w := range s.rows {
					if s.operation != op || w.scheme != scheme {
						continue
					}
					t := spreadOf(w.results, cct)
					if w.notifier == "none" && c.Big == "" {
						healthy = t
						c.healthy(w, t)
						continue
					}
					c.Lines = append(c.Lines, failureLine(s, w, t, healthy))
				}
			}
			if c.Big != "" || len(c.Lines) > 0 {
				out = append(out, c)
			}
		}
	}
	return out
}

func (c *card) healthy(w row, t spread) {
	missing := w.incomplete()
	switch {
	case t.n == 0 && w.failed():
		c.Big, c.BigNote, c.Bad = unfinished, missing+" on the healthy fabric", true
		return
	case t.n == 0:
		c.Big, c.BigNote = interrupted, missing+" on the healthy fabric"
		return
	}
	c.Big, c.BigNote = number(t.mean)+" µs", "healthy"
	if x := spreadOf(w.results, (*Result).Slowdown); x.n > 0 {
		c.BigNote += ", " + ratio(x.mean) + " the lower bound"
	}
	if missing != "" {
		c.BigNote += ", " + missing
	}
}

func failureLine(s section, w row, t, healthy spread) cardLine {
	line := cardLine{Label: s.failure, Bad: w.failed()}
	if w.notifier != "none" {
		line.Label += ", " + w.notifier
	}
	switch missing := w.incomplete(); {
	case missing != "":
		line.Value = missing
	case healthy.n > 0 && healthy.mean > 0:
		line.Value = ratio(t.mean/healthy.mean) + " healthy"
	default:
		line.Value = number(t.mean) + " µs"
	}
	return line
}
