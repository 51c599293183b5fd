package runner

import (
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/testbed/report"
)

// TestTextSaysUpOrDown: a line about several notifications still says whether ports went up or down.
func TestTextSaysUpOrDown(t *testing.T) {
	for want, texts := range map[string][2]string{
		"gnmi            tor0 spine0              down 2 times":             {"port 5 down", "port 1 down"},
		"gnmi            tor0 spine0              down and up 2 times":      {"port 5 down", "port 1 up"},
		"gnmi            tor0 spine0              port 1 up 2 times":        {"port 1 up", "port 1 up"},
		"gnmi            tor0 spine0              2 times":                  {"one", "other"},
		"gnmi            tor0 spine0              a link is back 2 times\n": {"a link is back", "a link is back"},
	} {
		var r Record
		r.Add(report.Event{Time: 1, Kind: "gnmi", Where: "tor0", Text: texts[0]})
		r.Add(report.Event{Time: 1, Kind: "gnmi", Where: "spine0", Text: texts[1]})
		var b strings.Builder
		if err := r.Text(&b); err != nil || !strings.Contains(b.String(), want) {
			t.Errorf("%v: %v\n%s", texts, err, b.String())
		}
	}
}
