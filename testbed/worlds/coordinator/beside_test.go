//go:build linux

package coordinator_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/monotonic"
	"github.com/ethereal-fabric/ethereal/testbed/deployment"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/coordinator"
)

// TestBeside: acts are carried out beside a program, and their times count from its word; the result says how it ended.
func TestBeside(t *testing.T) {
	run := runs(t)[0]
	s := connect(t, newHosts(t, run.Fabric))
	acted := make(chan struct{}, 1)
	begun := false // written before acts are carried out
	opt := coordinator.Options{Clock: monotonic.Now, Acts: []deployment.Act{{
		At: fabric.Millisecond, Timeline: report.KindCut, Where: "tor0-spine0",
		Do: func(context.Context) error {
			if !begun {
				t.Error("an act before the program has begun")
			}
			acted <- struct{}{}
			return nil
		},
	}}}
	failed := errors.New("exit status 3")
	for _, c := range []struct {
		name    string
		program coordinator.Program
		want    string // of the error
		result  bool
	}{
		{"succeeds", func(_ context.Context, begin func()) error {
			begun = true
			begin()
			<-acted
			return nil
		}, "", true},
		{"fails", func(_ context.Context, begin func()) error {
			begin()
			<-acted
			return failed
		}, "the program failed: exit status 3", true},
		{"never begins", func(context.Context, func()) error { return nil }, "the program ended before its start", false},
		{"ends too early", func(_ context.Context, begin func()) error { begin(); return nil }, "before 1 of the 1 steps", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "ends too early" {
				opt.Acts[0].At = fabric.Time(1e6) * fabric.Second
			}
			r, err := s.Beside(t.Context(), run, opt, c.program)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Fatalf("error %v; want %q", err, c.want)
			}
			if errors.Is(err, coordinator.ErrProgram) != strings.Contains(c.want, "failed") {
				t.Errorf("error %v is no failed program's", err)
			}
			if (r != nil) != c.result || r != nil && (r.Finished != (c.name != "fails") || r.Bound != nil) {
				t.Errorf("result %+v", r)
			}
		})
	}
}
