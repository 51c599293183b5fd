package report

import (
	"fmt"
	"slices"
)

// closeBy is the relative difference of completion times up to which schemes count as equally fast.
const closeBy = 0.01

// contest is one collective under one failure and notifier, with the mean completion times of the schemes.
type contest struct {
	name  string
	means map[string]float64 // of schemes whose runs all finished
	dnf   []string           // schemes with a run that did not
}

// contests returns the cases in which at least one run was not interrupted.
func contests(rs []*Result) []contest {
	var out []contest
	for _, s := range sections(rs) {
		for _, notifier := range s.notifiers() {
			c := contest{name: shortOperation(s.operation) + ", " + s.failure, means: map[string]float64{}}
			if notifier != "none" {
				c.name += ", " + notifier
			}
			for _, w := range s.rows {
				switch m := spreadOf(w.results, cct); {
				case w.notifier != notifier:
				case w.failed():
					c.dnf = append(c.dnf, w.scheme)
				case m.n > 0:
					c.means[w.scheme] = m.mean
				}
			}
			if len(c.means)+len(c.dnf) > 0 {
				out = append(out, c)
			}
		}
	}
	return out
}

// against returns the fastest other scheme of a case.
func (c contest) against(scheme string, order []string) (best string, mean float64) {
	for _, s := range order {
		if m, ok := c.means[s]; ok && s != scheme && (best == "" || m < mean) {
			best, mean = s, m
		}
	}
	return best, mean
}

// Story summarises a set of results in a few sentences: the fastest scheme and how often, its largest lead and
// deficit, and schemes that did not finish. The hero is Ethereal if it ran, otherwise the first scheme.
func Story(rs []*Result) []string {
	rs = distinguished(Distinct(rs))
	order := distinct(rs, func(r *Result) string { return r.Scheme })
	all := contests(rs)
	if len(all) == 0 {
		return nil
	}
	hero := order[0]
	if i := slices.IndexFunc(order, func(s string) bool { return baseName(s) == "ethereal" }); i >= 0 {
		hero = order[i]
	}
	if len(order) == 1 {
		return alone(hero, rs, all)
	}
	met, first := 0, 0
	var lead, arrears contest
	most, worst := 1.0, 1.0
	var behind []string
	for _, c := range all {
		own, ok := c.means[hero]
		if !ok {
			continue
		}
		met++
		_, next := c.against(hero, order)
		if next == 0 {
			first++
			continue
		}
		if own <= next*(1+closeBy) {
			first++
		} else {
			behind = append(behind, c.name)
		}
		if x := next / own; x > most {
			most, lead = x, c
		}
		if x := own / next; x > worst {
			worst, arrears = x, c
		}
	}
	var out []string
	if met > 0 {
		out = append(out, fmt.Sprintf("%s is fastest, or within 1 %% of the fastest, in %d of %s.", hero, first, plural(met, "case")))
	}
	if most > 1+closeBy {
		s, t := lead.against(hero, order)
		out = append(out, fmt.Sprintf("Its largest lead over the next: %s, %s against %s's %s (%s).",
			lead.name, duration(lead.means[hero]), s, duration(t), ratio(most)))
	}
	if len(behind) > 0 {
		s, t := arrears.against(hero, order)
		text := fmt.Sprintf("It is behind in %d; most in %s, %s against %s's %s (%s).", len(behind), arrears.name, duration(arrears.means[hero]), s, duration(t), ratio(worst))
		out = append(out, text)
	}
	for _, s := range order {
		n := 0
		for _, c := range all {
			if slices.Contains(c.dnf, s) {
				n++
			}
		}
		if n > 0 {
			out = append(out, fmt.Sprintf("%s did not finish in %d of %d.", s, n, len(all)))
		}
	}
	return out
}

// alone describes a set with one scheme, compared with the bound.
func alone(scheme string, rs []*Result, all []contest) []string {
	x := spreadOf(rs, slowdown)
	if x.n == 0 {
		return []string{fmt.Sprintf("%s: %s, none with a completion time beside a bound.", scheme, plural(len(all), "case"))}
	}
	return []string{fmt.Sprintf("%s takes %s to %s the lower bound in %s.", scheme, ratio(x.min), ratio(x.max), plural(len(all), "case"))}
}

// plural prints a count of things whose plural ends in s.
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// duration prints microseconds in a suitable unit.
func duration(us float64) string {
	switch {
	case us >= 1e7:
		return number(us/1e6) + " s"
	case us >= 1e5:
		return number(us/1e3) + " ms"
	}
	return number(us) + " µs"
}
