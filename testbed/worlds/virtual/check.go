package virtual

import (
	"context"
	"errors"
	"fmt"

	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// ErrDisagree is returned if a run's fast path through the P4 program and its interpreter disagree, which is a
// defect.
var ErrDisagree = errors.New("virtual: the P4 program's fast path and its interpreter disagree")

// Checked returns a function that carries out runs by run, and then once more with every packet through the P4
// interpreter, without traces and caches of switches, and with the network in one region. The digests of all events
// must be equal; otherwise the error wraps [ErrDisagree]. An interrupted run is not checked.
func Checked(run func(context.Context, scenario.Run, scenario.Observer) (*report.Result, error),
) func(context.Context, scenario.Run, scenario.Observer) (*report.Result, error) {
	return func(ctx context.Context, what scenario.Run, obs scenario.Observer) (*report.Result, error) {
		fast, err := run(ctx, what, obs)
		if err != nil {
			return fast, err
		}
		lab, err := NewLab()
		if err != nil {
			return fast, err
		}
		lab.untraced = true
		full, err := lab.Run(ctx, what, scenario.Observer{Regions: 1})
		if err != nil {
			return fast, err
		}
		if full.EventsSHA256 != fast.EventsSHA256 {
			return fast, fmt.Errorf("%w: %v: events %s, and %s by the interpreter", ErrDisagree, what, fast.EventsSHA256, full.EventsSHA256)
		}
		return fast, nil
	}
}
