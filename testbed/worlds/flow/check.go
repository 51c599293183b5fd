package flow

import (
	"errors"
	"fmt"

	"github.com/ethereal-fabric/ethereal/testbed/endpoint"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint/balance"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// ErrFailure is wrapped by the error about a failure that rates without packets do not predict.
var ErrFailure = errors.New("flow: no flow-level model of the failure")

// Check returns why a run cannot be carried out without packets, or nil.
func Check(run scenario.Run) error {
	_, err := check(run)
	return err
}

// check returns a run's scheme, or why the run cannot be carried out.
func check(run scenario.Run) (spec balance.Spec, err error) {
	s := run.Scenario
	if s.Servers.On() {
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

// checkFailures refuses failures whose outcome depends on single packets or on queues, and cases that differed by
// more than 15 % from packets: docs/results/performance.md has the errors.
func checkFailures(run scenario.Run, spec balance.Spec) error {
	refuse := func(what, why string) error {
		return fmt.Errorf("%w: %s: %s; use --world virtual", ErrFailure, what, why)
	}
	for _, e := range run.Failure.Events {
		switch e.Action {
		case scenario.Pause, scenario.Resume:
			return refuse(string(e.Action), "flows are not paused")
		case scenario.Gray:
			return refuse(string(e.Action), "which packets the link loses hangs on each")
		case scenario.Degrade:
			return refuse(string(e.Action), "what hosts do about a slow link hangs on marks, and those on queues")
		}
	}
	if len(run.Failure.Events) == 0 {
		return nil
	}
	h, c := run.Scenario.Host, run.Collective
	cut := fmt.Sprintf("a failure under %s, %s, %s", c.Name(), spec.Name, run.Notifier)
	switch receiver := h.Receiver.For(spec.Name); {
	case spec.Flows == balance.Spread:
		return refuse(cut, "it lasts as many time-outs, one after the other, as packets of one message happen to meet the dead path in a row")
	case receiver != endpoint.GoBackN:
		return refuse(cut, fmt.Sprintf("of receivers going back is modelled, not %s", receiver))
	case h.CongestionControl != endpoint.DCTCP && h.CongestionControl != endpoint.NoControl:
		return refuse(cut, fmt.Sprintf("how much is sent into a dead path hangs on the window of %s", h.CongestionControl))
	case spec.Name != balance.Ethereal && spec.Name != balance.ECMP:
		return refuse(cut, "of schemes with one path a queue pair, ethereal and ecmp were as with packets, others not")
	}
	if why := unfit(c, spec, run.Notifier); why != "" {
		return refuse(cut, why)
	}
	return nil
}

// unfit returns why a simulation without packets would be wrong after a cut; empty: it would not.
func unfit(c scenario.Collective, spec balance.Spec, n scenario.Notifier) string {
	steps := c.Algorithm == collective.HalvingDoubling || c.Algorithm == collective.WholeVectorDoubling
	direct := c.Kind == collective.AllReduce && (c.Algorithm == "" || c.Algorithm == collective.Direct)
	tree, incast := c.Algorithm == collective.DoubleBinaryTree, c.Kind == collective.Incast
	switch {
	case spec.Flows == balance.Hashed && (incast || c.Kind == collective.Permutation):
		return "it hangs on the last packets of few queue pairs: a sender that is still sending is asked for what it lost, another waits for its timer"
	case spec.Flows == balance.Hashed:
		return ""
	case n == scenario.NotifyTimeout && (tree || incast), !n.Quench() && steps:
		return "whether a host leaves a path or waits for its timer hangs on marks, and those on queues"
	case n.Quench() && (steps || direct):
		return "steps overlap once ranks are apart, and queues serve the older first, where rates are alike"
	}
	return ""
}
