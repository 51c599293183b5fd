package scenario

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ethereal-fabric/ethereal/fabric"
)

const sweptText = `
name: swept
fabric: {kind: leaf-spine, tors: 2, spines: 2, hosts_per_tor: 2}
collectives: [{kind: all-to-all, bytes: 1MB}]
schemes: [ethereal, ecmp]
failures:
  - {name: healthy}
  - name: cut
    events:
      - {at: %s, link: tor0-spine0, action: cut, detection: 1us}
      - {at: %s, link: tor0-spine0, action: restore, detection: 1us}
    notifiers: [gnmi]
`

// TestMoments: one run a time, named by it, and the times come from the healthy run.
func TestMoments(t *testing.T) {
	for _, c := range []struct {
		cut, restore string
		want         []string // names of cases, and their times with a healthy run of 200us
	}{
		{"20us", "40us", []string{"cut 20us 40us"}},
		{"10%", "10%+5us", []string{"cut 20us 25us"}},
		{"10%..30%/3", "10%..30%/3", []string{"cut at 10% 20us 20us", "cut at 20% 40us 40us", "cut at 30% 60us 60us"}},
		{"[1us, 10%+1us, 50%]", "2ms", []string{"cut at 1us 1us 2ms", "cut at 10%+1us 21us 2ms", "cut at 50% 100us 2ms"}},
		{"1us..3us/2", "1ms", []string{"cut at 1us 1us 1ms", "cut at 3us 3us 1ms"}},
	} {
		s, err := Parse("swept.yaml", fmt.Appendf(nil, sweptText, c.cut, c.restore), nil)
		if err != nil {
			t.Error(err)
			continue
		}
		runs, err := s.Expand()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		hashes := map[string]bool{}
		for _, r := range runs {
			hash, err := r.Hash()
			if err != nil || hashes[hash] {
				t.Errorf("%v: hash %s again, %v", r, hash, err)
			}
			hashes[hash] = true
			if base, shares := r.Healthy(); shares {
				if r.Ready() == nil || len(r.Events) > 0 || len(base.Events) > 0 || base.Ready() != nil {
					t.Errorf("%v: events %v before the healthy run is made", r, r.Events)
				}
				if r, err = r.Timed(200 * fabric.Microsecond); err != nil {
					t.Fatal(err)
				}
			}
			if r.Scheme.Name == ECMP && r.Failure.Name != "healthy" {
				if r.Failure.Case != "cut" || r.Ready() != nil {
					t.Errorf("%v: case %q, %v", r, r.Failure.Case, r.Ready())
				}
				got = append(got, fmt.Sprintf("%s %v %v", r.Failure.Name, r.Events[0].At, r.Events[1].At))
			}
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s, %s (-want +got):\n%s", c.cut, c.restore, d)
		}
	}
}

func TestBadMoments(t *testing.T) {
	for at, want := range map[string]string{
		"30":             "the unit is missing",
		"130%":           "is not a share of 0 to 1",
		"30% 5us":        "is not + and a time",
		"10%..5%":        "is not a range",
		"10%..50us":      "is not a range",
		"10%..90%/1":     "is not a number of times, 2 to 1000",
		"[]":             "no time is in the list",
		"[10%, 20%]":     "one event has 2 times and another 3",
		"1us..2us/2000":  "is not a number of times, 2 to 1000",
		"30%+200ms":      "is not before the deadline",
		"{a: 1}":         "where a time belongs",
		"[10%, [20%]]":   "where a time belongs",
		"10%..90%..95%":  "is not + and a time",
		"10us..90us/two": "is not a number of times",
	} {
		_, err := Parse("swept.yaml", fmt.Appendf(nil, sweptText, at, "10%..30%/3"), nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", at, err, want)
		}
	}
}
