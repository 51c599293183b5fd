package report

import (
	"fmt"
	"slices"
)

// equalWithin is the relative difference of completion times up to which schemes count as equally fast.
const equalWithin = 0.01

// caseMeans is one collective under one failure and notifier, with the mean completion time of each scheme.
type caseMeans struct {
	name  string
	means map[string]float64 // of schemes whose runs all finished
	dnf   []string           // schemes with a run that did not
}

// caseMeansOf returns the cases in which at least one run was not interrupted.
func caseMeansOf(rs []*Result) []caseMeans {
	var out []caseMeans
	for _, s := range sections(rs) {
		for _, notifier := range s.notifiers() {
			c := caseMeans{name: shortOperation(s.operation) + ", " + s.failure, means: map[string]float64{}}
			if notifier != "none" {
				c.name += ", " + notifier
			}
			for _, w := range s.rows {
				switch m := spreadOf(w.results, completionTime); {
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

// fastestOther returns the fastest other scheme of a case.
func (c caseMeans) fastestOther(scheme string, order []string) (best string, mean float64) {
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
	rs = distinguishFailures(Distinct(rs))
	order := distinctValues(rs, func(r *Result) string { return r.Scheme })
	all := caseMeansOf(rs)
	if len(all) == 0 {
		return nil
	}
	hero := order[0]
	if i := slices.IndexFunc(order, func(s string) bool { return baseName(s) == "ethereal" }); i >= 0 {
		hero = order[i]
	}
	if len(order) == 1 {
		return aloneText(hero, rs, all)
	}
	met, first := 0, 0
	var lead, arrears caseMeans
	most, worst := 1.0, 1.0
	var behind []string
	for _, c := range all {
		own, ok := c.means[hero]
		if !ok {
			continue
		}
		met++
		_, next := c.fastestOther(hero, order)
		if next == 0 {
			first++
			continue
		}
		if own <= next*(1+equalWithin) {
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
		out = append(out, fmt.Sprintf("%s is fastest, or within 1 %% of the fastest, in %d of %s.", hero, first, pluralText(met, "case")))
	}
	if most > 1+equalWithin {
		s, t := lead.fastestOther(hero, order)
		out = append(out, fmt.Sprintf("Its largest lead over the next: %s, %s against %s's %s (%s).",
			lead.name, durationText(lead.means[hero]), s, durationText(t), multipleText(most)))
	}
	if len(behind) > 0 {
		s, t := arrears.fastestOther(hero, order)
		text := fmt.Sprintf("It is behind in %d; most in %s, %s against %s's %s (%s).", len(behind), arrears.name, durationText(arrears.means[hero]), s, durationText(t), multipleText(worst))
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

// aloneText describes a set with one scheme, compared with the bound.
func aloneText(scheme string, rs []*Result, all []caseMeans) []string {
	x := spreadOf(rs, slowdownOf)
	if x.n == 0 {
		return []string{fmt.Sprintf("%s: %s, none with a completion time beside a bound.", scheme, pluralText(len(all), "case"))}
	}
	return []string{fmt.Sprintf("%s takes %s to %s the lower bound in %s.", scheme, multipleText(x.min), multipleText(x.max), pluralText(len(all), "case"))}
}

// pluralText prints a count of things whose plural ends in s.
func pluralText(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// durationText prints microseconds in a suitable unit.
func durationText(us float64) string {
	switch {
	case us >= 1e7:
		return fourDigits(us/1e6) + " s"
	case us >= 1e5:
		return fourDigits(us/1e3) + " ms"
	}
	return fourDigits(us) + " µs"
}
