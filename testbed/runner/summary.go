package runner

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ethereal-fabric/ethereal/testbed/report"
)

// Summary writes one line per outcome, if there are several, and their total time.
func Summary(w io.Writer, outcomes []*Outcome) error {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "scenario\tworld\tresult\theld\tCCT/bound\tgNMI\twrites\tflips\ttimeouts\tretx\ttook\t\n") //nolint:errcheck // the builder takes all
	passed, took := 0, time.Duration(0)
	for _, o := range outcomes {
		held := 0
		for _, v := range o.Verdicts {
			if v.Held {
				held++
			}
		}
		if o.StatusWord() == "passed" {
			passed++
		}
		took += o.Took
		cells := []string{"-", "-", "-", "-", "-", "-"}
		if o.Result != nil {
			cells = []string{
				slowdown(o.Result), countEvents(o.Record, "gnmi"), countEvents(o.Record, "write"), strconv.Itoa(o.Result.Flips),
				strconv.FormatInt(o.Result.Timeouts, 10), strconv.FormatInt(o.Result.Retransmissions, 10),
			}
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d/%d\t%s\t%.1f s\t\n", o.Name(), o.World, o.StatusWord(), //nolint:errcheck // the builder takes all
			held, len(o.Verdicts), strings.Join(cells, "\t"), o.Took.Seconds())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(&b, "%d of %d passed, in %.1f s\n", passed, len(outcomes), took.Seconds())
	_, err := io.WriteString(w, b.String())
	return err
}

func slowdown(r *report.Result) string {
	if s, ok := r.Slowdown(); ok {
		return strconv.FormatFloat(s, 'f', 3, 64)
	}
	return "DNF"
}

func countEvents(r *Record, kind report.Kind) string { return strconv.Itoa(len(r.Kind(kind))) }
