package deployment

import (
	"context"
	"errors"
	"fmt"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/adminhttp"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// Act is one action on a running fabric, such as a cut, as a scenario's run requires it.
type Act struct {
	At          fabric.Time
	Name        string // a scenario event's action, such as cut; or detect: the ends notice it
	Where, Text string
	Timeline    report.Kind // its kind on the result's timeline; empty: not shown
	// Links are its effects on links, from which the bound of the run's time is computed.
	Links []scenario.LinkEvent
	// Do carries it out. An error ends the run, except [ErrChanged], which means that the action was skipped.
	Do func(context.Context) error
}

// ErrChanged means that a link changed again before the switches at its ends were to notice the first change.
var ErrChanged = errors.New("deployment: the link has changed again since")

// CutMethod is how links are made to fail on a running fabric.
type CutMethod uint8

// Kinds of cutting.
const (
	// BySet makes a switch disable its port, by a gNMI Set, and kills a switch all of whose links fail, as
	// operators do.
	BySet CutMethod = iota
	// BySilence makes a link lose all packets; its ends go down the event's detection time later.
	BySilence
)

// Acts converts a run's events into actions on this fabric. It returns an error with the reason for an event that this
// fabric cannot carry out.
func (a *Actuator) Acts(run scenario.Run) ([]Act, error) {
	p := &actPlan{Actuator: a, run: run, hurt: map[fabric.LinkID]bool{}, lost: map[fabric.LinkID]bool{}}
	for _, e := range run.Events {
		if err := p.link(e); err != nil {
			return nil, fmt.Errorf("%s: %w", run.Fabric.LinkName(e.Link), err)
		}
	}
	for _, e := range run.Failure.Drawn(run.Fabric, run.Seed) {
		if err := p.control(e); err != nil {
			return nil, fmt.Errorf("%v: %w", e, err)
		}
	}
	return p.acts, nil
}

// Refuses returns why a run's events cannot be carried out on any running fabric, or nil.
func Refuses(run scenario.Run) error {
	all := &Actuator{
		Control: func(context.Context, Order) error { return nil }, Admin: "any", Client: adminhttp.Client{Token: "any"},
	}
	_, err := all.Acts(run)
	return err
}

// actPlan converts a run's events to acts.
type actPlan struct {
	*Actuator
	run  scenario.Run
	acts []Act
	hurt map[fabric.LinkID]bool // links impaired without a port's state changing
	lost map[fabric.LinkID]bool // links that lose all packets, while the acts are carried out
}

// link adds an event of a link.
func (p *actPlan) link(e scenario.LinkEvent) error {
	f := p.run.Fabric
	if e.Switch != 0 && p.Cuts == BySet && (e.Cuts() || e.Up) {
		return p.node(e)
	}
	act := Act{At: e.At, Name: string(scenario.Cut), Where: f.LinkName(e.Link), Timeline: report.KindCut, Links: []scenario.LinkEvent{e}}
	switch {
	case e.Loss > 0:
		p.hurt[e.Link] = true
		act.Name, act.Text = string(scenario.Gray), fmt.Sprintf("loses %v of the packets %s", e.Loss, e.Direction)
		act.Do = func(ctx context.Context) error { return p.SetLoss(ctx, e.Link, e.Direction, float64(e.Loss)) }
		p.acts = append(p.acts, act)
		return p.canImpair(e.Link)
	case e.Rate > 0:
		if e.Reported {
			return errors.New("the switches here do not report the speed of a degraded link: remove reported")
		}
		rate := e.Rate
		if rate >= f.Link(e.Link).Rate {
			rate = 0 // no limit: where packets are real, the link's rate may differ from the fabric's
		}
		p.hurt[e.Link] = true
		act.Name, act.Text = string(scenario.Degrade), fmt.Sprintf("degraded to %v %s", e.Rate, e.Direction)
		act.Do = func(ctx context.Context) error { return p.SetRate(ctx, e.Link, e.Direction, rate) }
		p.acts = append(p.acts, act)
		return p.canImpair(e.Link)
	case e.Up:
		act.Name, act.Timeline = string(scenario.Restore), report.KindRestore
	}
	if p.Cuts == BySilence {
		return p.addSilentFailure(e, act)
	}
	if e.Direction != scenario.BothDirections {
		return errors.New("one direction of a link alone cannot be cut here; remove direction")
	}
	hurt := e.Up && p.hurt[e.Link]
	act.Do = func(ctx context.Context) (err error) {
		if !e.Silent {
			err = p.EnableLink(ctx, e.Link, e.Up)
		}
		if hurt {
			err = errors.Join(err, p.ClearImpairments(ctx, e.Link))
		}
		return err
	}
	if e.Up {
		delete(p.hurt, e.Link)
	}
	p.acts = append(p.acts, act)
	return p.canSet(e.Link)
}

// addSilentFailure adds a link failure that switches detect later, or its end. With notifier timeout they never detect
// it.
func (p *actPlan) addSilentFailure(e scenario.LinkEvent, act Act) error {
	if e.Direction != scenario.BothDirections {
		act.Text = string(e.Direction) + "ward only"
	}
	act.Do = func(ctx context.Context) error {
		p.lost[e.Link] = !e.Up
		if e.Up {
			return p.ClearImpairments(ctx, e.Link)
		}
		return p.SetLoss(ctx, e.Link, e.Direction, 1)
	}
	p.acts = append(p.acts, act)
	if p.run.Notifier != scenario.NotifyTimeout && !e.Silent {
		p.acts = append(p.acts, Act{
			At: e.At + e.Detection, Name: string(report.KindDetect), Where: act.Where, Text: upDown(e.Up), Timeline: report.KindDetect,
			Do: func(ctx context.Context) error {
				if p.lost[e.Link] == e.Up {
					return ErrChanged
				}
				return p.carrier(ctx, e.Link, e.Up)
			},
		})
	}
	return errors.Join(p.canImpair(e.Link), p.canOrder())
}

// node adds the death of a switch, or its return, once for all of its links.
func (p *actPlan) node(e scenario.LinkEvent) error {
	where := p.run.Fabric.Name(e.Switch)
	if n := len(p.acts) - 1; n >= 0 && p.acts[n].Where == where && p.acts[n].At == e.At {
		p.acts[n].Links = append(p.acts[n].Links, e)
		return nil
	}
	act := Act{
		At: e.At, Name: string(scenario.Cut), Where: where, Timeline: report.KindCut, Links: []scenario.LinkEvent{e},
		Do: func(ctx context.Context) error { return p.SetSwitchRunning(ctx, e.Switch, e.Up) },
	}
	if e.Up {
		act.Name, act.Timeline = string(scenario.Restore), report.KindRestore
	}
	p.acts = append(p.acts, act)
	return p.canOrder()
}

// control adds an event of the control plane.
func (p *actPlan) control(e scenario.Event) error {
	if e.Action.OfLinks() {
		return nil
	}
	f := p.run.Fabric
	var node fabric.NodeID
	var err error
	where := e.Node
	if e.Node != "" {
		if node, err = scenario.NodeNamed(f, e.Node); err != nil {
			return err
		}
		where = f.Name(node)
	}
	add := func(do func(context.Context) error) {
		p.acts = append(p.acts, Act{At: e.At, Name: string(e.Action), Where: where, Do: do})
	}
	switch e.Action {
	case scenario.ControllerDown, scenario.ControllerUp:
		where = "controller"
		add(func(ctx context.Context) error { return p.SetControllerRunning(ctx, e.Action == scenario.ControllerUp) })
		return p.canOrder()
	case scenario.AgentDown, scenario.AgentUp:
		add(func(ctx context.Context) error { return p.SetAgentRunning(ctx, node, e.Action == scenario.AgentUp) })
		return p.canOrder()
	case scenario.Drain, scenario.Undrain:
		if e.Link != "" {
			links, err := e.Links(f, p.run.Seed)
			if err != nil {
				return err
			}
			where = f.LinkName(links[0])
		}
		name := where
		add(func(ctx context.Context) error { return p.Drain(ctx, name, e.Action == scenario.Drain) })
		return p.canDrain()
	}
	return fmt.Errorf("%s is the virtual world's; remove the event, or leave out --world", e.Action)
}

func upDown(up bool) string {
	if up {
		return "up"
	}
	return "down"
}
