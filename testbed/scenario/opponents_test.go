package scenario

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Fair opponents have explicit parameters, which count for the hash of a run; what is written stays, and a scheme that
// has everything by its own ways is the same run in either form.
func TestOpponents(t *testing.T) {
	const body = `
name: p
fabric: {kind: fat-tree, k: 4}
collectives: [{kind: all-to-all, bytes: 1MB}]
schemes: [ethereal, spray, {name: spray, params: {entropy: port}}, reps, jsq, {name: ecmp, params: {convergence: 1s}}, lpt]
`
	names := func(text string) (names []string, hashes []string) {
		t.Helper()
		runs, err := parsed(t, text+body).Expand()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range runs {
			h, err := r.Hash()
			if err != nil {
				t.Fatal(err)
			}
			names, hashes = append(names, r.Scheme.String()), append(hashes, h)
		}
		return names, hashes
	}
	published, was := names("opponents: as-published\n")
	fair, is := names("opponents: fair\n")
	want := []string{
		"ethereal", "spray(loss=late,news=taken)", "spray(entropy=port,loss=late)", "reps(loss=late,news=taken)",
		"jsq(convergence=50ms,loss=late)", "ecmp(convergence=1s)", "lpt",
	}
	if d := cmp.Diff(want, fair); d != "" {
		t.Errorf("fair (-want +got):\n%s", d)
	}
	for i := range want {
		if same := published[i] == fair[i]; same != (was[i] == is[i]) {
			t.Errorf("%s and %s: equal hashes %v", published[i], fair[i], !same)
		}
	}
	plain, hashes := names("")
	if d := cmp.Diff(published, plain) + cmp.Diff(was, hashes); d != "" {
		t.Errorf("without the key (-as-published +got):\n%s", d)
	}
	for _, c := range []struct{ text, want string }{
		{"opponents: faire\n" + body, "did you mean fair?"},
		{"opponents: fair\nhost: {tail_probe: false}\n" + body, "and tails are probed"},
		{"opponents: fair\nhost: {receiver: go-back-n}\n" + body, "losses are to be found by time"},
	} {
		if _, err := Parse("p.yaml", []byte(c.text), nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
}

// Of a run whose controller hears of failures nobody else repairs tables.
func TestRouting(t *testing.T) {
	for n, want := range map[Notifier]bool{NotifyTimeout: true, NotifyQuench: true, NotifyGNMI: false, NotifyAll: false} {
		r := Run{Scheme: Scheme{Name: ECMP, Params: map[string]string{"convergence": "3ms"}}, Notifier: n}
		if after, ok := r.Routing(); ok != want || ok && after != 3*fabric.Millisecond {
			t.Errorf("%s: %v, %v", n, after, ok)
		}
	}
	if _, ok := (Run{Scheme: Scheme{Name: ECMP}}).Routing(); ok {
		t.Error("ECMP as published is routed")
	}
}
