package virtual

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

func TestChecked(t *testing.T) {
	oneGoroutine(t)
	s, err := scenario.Parse("check.yaml", []byte(`
name: check
fabric: {kind: leaf-spine, tors: 2, spines: 2, hosts_per_tor: 2}
collectives: [{kind: permutation, bytes: 64KB, shift: 2}]
schemes: [ethereal]
failures: [{name: healthy}]
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	runs, err := s.Expand()
	if err != nil {
		t.Fatal(err)
	}
	r, err := Checked(Runner())(context.Background(), runs[0], scenario.Observer{})
	if err != nil || !r.Finished {
		t.Fatalf("%+v, %v", r, err)
	}
	wrong := func(ctx context.Context, run scenario.Run, obs scenario.Observer) (*report.Result, error) {
		r, err := Runner()(ctx, run, obs)
		if err == nil {
			r.EventsSHA256 = strings.Repeat("0", 64)
		}
		return r, err
	}
	if _, err := Checked(wrong)(context.Background(), runs[0], scenario.Observer{}); !errors.Is(err, ErrDisagree) {
		t.Errorf("a run with other events: %v, want ErrDisagree", err)
	}
}
