package flow

import (
	"errors"
	"fmt"

	"github.com/ethereal-fabric/ethereal/testbed/balance"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// ErrFailure is wrapped by the error about an event that rates without packets do not predict.
var ErrFailure = errors.New("flow: no flow-level model of the failure")

// Check returns why a run cannot be carried out without packets, or nil.
func Check(run scenario.Run) error {
	_, err := check(run)
	return err
}

// check returns a run's scheme, or why the run cannot be carried out.
func check(run scenario.Run) (spec balance.Spec, err error) {
	s := run.Scenario
	if !run.Fabric.Clos() {
		return spec, fmt.Errorf("there is no flow-level model of a %s: use --world virtual", s.Fabric.Kind)
	}
	if s.Servers.Grouped() {
		return spec, errors.New("servers are the virtual world's: remove the key, or leave out --world")
	}
	if run.Lateness().Any() {
		return spec, errors.New("start_skew and stragglers are the virtual world's: remove the keys, or leave out --world")
	}
	if spec, err = run.Scheme.Spec(); err != nil {
		return spec, err
	}
	if run.Program != nil {
		return spec, errors.New("workloads are the virtual world's: leave out --world")
	}
	if spec.Adapted(run.Scheme.Params) {
		return spec, fmt.Errorf("%w of %s: what it has beyond its authors' form hangs on packets; use --world virtual", ErrScheme, run.Scheme)
	}
	if spec.Flows == balance.NoFlowModel {
		return spec, fmt.Errorf("%w of %s: what it does depends on queues; use --world virtual", ErrScheme, spec.Name)
	}
	return spec, checkFailures(run, spec)
}

// checkFailures refuses every event but links that are dead or slow before the collective begins, with agents and
// tables that know it. What hosts do about a change while the collective runs depends on single packets, time-outs and
// queues.
func checkFailures(run scenario.Run, spec balance.Spec) error {
	for _, e := range run.Failure.Events {
		if why := unsteady(e, run.Notifier); why != "" {
			at := e.At.String()
			if len(e.When) > 0 {
				at = e.When[0].String()
			}
			return fmt.Errorf("%w: %v at %s: %s; use --world virtual, or give links that are dead (cut) or slow (degrade, reported: true) "+
				"before the collective begins: at: 0us, detection: 0us, notifiers: [gnmi]", ErrFailure, e, at, why)
		}
	}
	if len(run.Failure.Events) == 0 {
		return nil
	}
	why, op := "", run.Collective
	switch {
	case spec.Name != balance.Ethereal && spec.Flows != balance.Hashed:
		why = fmt.Sprintf("hosts of %s do not know which links are dead or slow", run.Scheme)
	case overlaps(op):
		why = fmt.Sprintf("steps of %s overlap once ranks are apart, and queues serve the older first, where rates are alike", op.Name())
	case op.Kind == collective.Incast, op.Kind == collective.Permutation && spec.Name == balance.ECMP:
		why = fmt.Sprintf("%s under %s depends on what full queues drop", op.Name(), run.Scheme)
	default:
		return nil
	}
	return fmt.Errorf("%w: %v: %s; use --world virtual", ErrFailure, run.Failure.Events[0], why)
}

// overlaps reports whether a rank can send messages of two steps to different ranks at once.
func overlaps(c scenario.Collective) bool {
	return c.Algorithm == collective.HalvingDoubling || c.Algorithm == collective.WholeVectorDoubling ||
		c.Kind == collective.AllReduce && (c.Algorithm == "" || c.Algorithm == collective.Direct)
}

// unsteady returns why an event is no steady state that all know before the collective begins; empty: it is one. It
// agrees with [scenario.Run.KnownBefore].
func unsteady(e scenario.Event, n scenario.Notifier) string {
	switch {
	case e.Action != scenario.Cut && e.Action != scenario.Degrade:
		return "only dead and slow links have a model"
	case e.At > 0 || len(e.When) > 0:
		return "links do not change while the collective runs"
	case e.Action == scenario.Degrade && !e.Reported:
		return "no switch reports the link's rate, and no agent knows it"
	case e.Detection > 0:
		return "switches detect it when the collective has begun"
	case !n.GNMI():
		return fmt.Sprintf("with notifier %s no agent knows of it before the collective begins", n)
	}
	return ""
}
