package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ethereal-fabric/ethereal/testbed/balance"
)

// fairDocs is where the two forms are explained.
const fairDocs = "docs/scenario.md#fair-opponents"

// Opponents returns sentences that say whether the schemes beside Ethereal ran as published or in their fair form, if
// there are any and something failed: comparisons under failures depend on it.
func Opponents(rs []*Result) (lines []string) {
	var failed []*Result
	for _, r := range rs {
		if r.FirstFailure != nil || r.Notifier != "none" && r.Notifier != "" {
			failed = append(failed, r)
		}
	}
	var fair, formless, lacks []string
	published := map[string][]string{} // schemes, by what they lack
	for _, scheme := range distinctValues(failed, func(r *Result) string { return r.Scheme }) {
		spec, err := balance.Find(baseName(scheme))
		if err != nil || spec.Name == balance.Ethereal {
			continue
		}
		missing, ok := spec.Lacks(paramsOf(scheme))
		why := strings.Join(missing, " and ")
		switch {
		case !ok:
			formless = append(formless, scheme)
		case why == "":
			fair = append(fair, scheme)
		default:
			if !slices.Contains(lacks, why) {
				lacks = append(lacks, why)
			}
			published[why] = append(published[why], scheme)
		}
	}
	var parts []string
	for _, why := range lacks {
		parts = append(parts, strings.Join(published[why], ", ")+": "+why)
	}
	if len(parts) > 0 {
		lines = append(lines, fmt.Sprintf("Opponents as published. %s.", strings.Join(parts, "; ")),
			fmt.Sprintf("After failures `opponents: fair` compares with what they can do with Ethereal's means: %s", fairDocs))
	}
	if len(fair) > 0 {
		lines = append(lines, fmt.Sprintf("Opponents in their fair form, with Ethereal's loss detection and notifications: %s (%s)",
			strings.Join(fair, ", "), fairDocs))
	}
	if len(formless) > 0 {
		lines = append(lines, "Opponents without a fair form: "+strings.Join(formless, ", "))
	}
	return lines
}

// paramsOf returns the parameters in a scheme's text; a comma within a value begins no parameter.
func paramsOf(scheme string) map[string]string {
	_, inside, _ := strings.Cut(strings.TrimSuffix(scheme, ")"), "(")
	out := map[string]string{}
	for part := range strings.SplitSeq(inside, ",") {
		if key, value, ok := strings.Cut(part, "="); ok {
			out[key] = value
		}
	}
	return out
}

// opponentsHeading prints [Opponents] above a table.
func opponentsHeading(rs []*Result) string {
	lines := append(CutOffs(rs), Opponents(rs)...)
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n\n"
}
