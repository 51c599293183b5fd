package damping

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/goldentest"
)

// TestScenarios runs the text files of testdata. Every command takes at=TIME, by the
// damper's clock. Commands:
//
//	new [off]
//	port N up|down    what a port says of itself
//	tick
//	rebase            the damper's clock shows 0 from now on
func TestScenarios(t *testing.T) {
	goldentest.Scenarios(t, "testdata", func() func(*datadriven.TestData) (string, error) {
		var d *Damper
		return func(td *datadriven.TestData) (string, error) {
			var now fabric.Time
			words, err := goldentest.Words(td, &now)
			if err != nil {
				return "", err
			}
			var b strings.Builder
			switch td.Cmd {
			case "new":
				d, err = New(Config{Off: len(words) > 0})
				return "", err
			case "port":
				p := Port{Node: 3}
				if _, err := fmt.Sscan(words[0], &p.Port); err != nil {
					return "", err
				}
				fmt.Fprintf(&b, "believed: %v\n", d.Reported(now, p, words[1] == "up"))
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
				return "", fmt.Errorf("unknown command %s", td.Cmd)
			}
			if due, ok := d.Deadline(); ok {
				fmt.Fprintf(&b, "due %v\n", due/fabric.Millisecond*fabric.Millisecond)
			}
			fmt.Fprintf(&b, "ports remembered: %d\n", len(d.ports))
			return b.String(), nil
		}
	})
}
