package damping

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// TestScenarios runs the text files of testdata. Every command takes at=TIME, by the
// damper's clock. Commands:
//
//	new [off]
//	port N up|down    what a port says of itself
//	tick
//	rebase            the damper's clock shows 0 from now on
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if strings.HasPrefix(path, "testdata/rapid/") {
			t.Skip("what rapid left of a failure is no scenario")
		}
		var d *Damper
		datadriven.RunTest(t, path, func(t *testing.T, td *datadriven.TestData) string {
			var now fabric.Time
			var words []string
			for _, a := range td.CmdArgs {
				if a.Key != "at" {
					words = append(words, a.Key)
				} else if err := now.UnmarshalText([]byte(a.Vals[0])); err != nil {
					td.Fatalf(t, "%v", err)
				}
			}
			var b strings.Builder
			switch td.Cmd {
			case "new":
				var err error
				if d, err = New(Config{Off: len(words) > 0}); err != nil {
					td.Fatalf(t, "%v", err)
				}
				return ""
			case "port":
				p := Port{Node: 3}
				if _, err := fmt.Sscan(words[0], &p.Port); err != nil {
					td.Fatalf(t, "%v", err)
				}
				fmt.Fprintf(&b, "believed: %v\n", d.State(now, p, words[1] == "up"))
				if d.Damped(p) {
					b.WriteString("held down\n")
				}
			case "tick":
				for _, e := range d.Tick(now) {
					fmt.Fprintf(&b, "port %d let go, up=%v\n", e.Port.Port, e.Up)
				}
			case "rebase":
				d.Rebase(now)
			default:
				td.Fatalf(t, "unknown command %s", td.Cmd)
			}
			if due, ok := d.Deadline(); ok {
				fmt.Fprintf(&b, "due %v\n", due/fabric.Millisecond*fabric.Millisecond)
			}
			fmt.Fprintf(&b, "ports remembered: %d\n", len(d.ports))
			return b.String()
		})
	})
}
