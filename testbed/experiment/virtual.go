package experiment

import (
	"context"
	"fmt"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// Runner carries out a run in virtual time: testbed/worlds/virtual's.
type Runner func(ctx context.Context, run scenario.Run, obs scenario.Observer) (*report.Result, error)

// NewVirtual returns the virtual world.
func NewVirtual(run Runner) World { return virtualWorld{run} }

type virtualWorld struct{ run Runner }

// Name implements [World].
func (virtualWorld) Name() string { return Virtual }

// Run implements [World].
func (v virtualWorld) Run(ctx context.Context, e *Experiment, rec *Record) (*report.Result, error) {
	runs, err := e.Scenario.Expand()
	if err != nil {
		return nil, err
	}
	run := runs[0]
	run.Failure = scenario.Failure{Name: e.Scenario.Name, Notifiers: []scenario.Notifier{e.Notifier}}
	run.Notifier = e.Notifier
	for _, s := range e.Steps {
		events, interventions, err := s.virtually(e.Fabric)
		if err != nil {
			return nil, err
		}
		run.Failure.Events = append(run.Failure.Events, events...)
		run.Interventions = append(run.Interventions, interventions...)
	}
	if run.Events, err = run.Failure.LinkEvents(e.Fabric, run.Seed); err != nil {
		return nil, err
	}
	return v.run(ctx, run, scenario.Observer{Happened: rec.Add})
}

// deeds are the steps that are done to the control plane.
func deeds() map[Action]scenario.Deed {
	return map[Action]scenario.Deed{
		ControllerDown: scenario.ControllerDown, ControllerUp: scenario.ControllerUp,
		AgentDown: scenario.AgentDown, AgentUp: scenario.AgentUp,
		Drain: scenario.Drain, Undrain: scenario.Undrain,
	}
}

// virtually returns what a step is in the virtual world.
func (s Step) virtually(f *fabric.Fabric) ([]scenario.Event, []scenario.Intervention, error) {
	at := func(t fabric.Time, a scenario.Action) scenario.Event {
		return scenario.Event{At: t, Link: s.Link, Node: s.Node, Action: a, Detection: s.Detection}
	}
	switch s.Do {
	case LinkDown, NodeDown:
		return []scenario.Event{at(s.At, scenario.Cut)}, nil, nil
	case LinkUp, NodeUp:
		return []scenario.Event{at(s.At, scenario.Restore)}, nil, nil
	case Gray:
		e := at(s.At, scenario.Gray)
		if e.Loss = scenario.Share(s.Loss); s.Loss == 0 {
			e.Action = scenario.Restore
		}
		return []scenario.Event{e}, nil, nil
	case Rate:
		e := at(s.At, scenario.Degrade)
		e.Rate = s.Rate
		return []scenario.Event{e}, nil, nil
	case Flap:
		var out []scenario.Event
		for i := range s.Times {
			down := s.At + fabric.Time(i)*s.Period
			out = append(out, at(down, scenario.Cut), at(down+s.Period/2, scenario.Restore))
		}
		return out, nil, nil
	}
	do, ok := deeds()[s.Do]
	if !ok {
		return nil, nil, fmt.Errorf("%s: the virtual world cannot do it", s.Do)
	}
	i := scenario.Intervention{At: s.At, Do: do}
	switch {
	case s.Link != "":
		link, err := f.LinkByName(s.Link)
		i.Link = link
		return nil, []scenario.Intervention{i}, err
	case s.Node != "":
		id, err := f.NodeByName(s.Node)
		if err != nil {
			return nil, nil, err
		}
		if i.Node = id; f.Node(id).Tier == fabric.Host {
			return nil, []scenario.Intervention{i}, nil
		}
		var out []scenario.Intervention
		n := f.Node(id)
		for p := fabric.PortNo(1); int(p) <= n.Ports(); p++ {
			i.Link = n.Link(p)
			out = append(out, i)
		}
		return nil, out, nil
	}
	return nil, []scenario.Intervention{i}, nil
}
