package deployment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/adminhttp"
	"github.com/ethereal-fabric/ethereal/testbed/deployment/gray"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// Actuator carries out a run's events on a running fabric, and remembers how to undo them. It is not safe for
// concurrent use.
type Actuator struct {
	Fabric *Fabric
	Cuts   CutMethod
	// Control sends a request to the process that started the fabric. Nil: there is none.
	Control func(context.Context, Order) error
	// Interface is the pattern of the switches' interface names in this network namespace, as in [File]. Empty:
	// they are elsewhere, and the maker is asked to slow links or make them lose packets.
	Interface string
	// Admin is the controller's HOST:PORT, or unix:PATH, for drains; Client has the token. Empty: no drains.
	Admin  string
	Client adminhttp.Client

	gray  gray.Losses
	rates limiter
	after []undoAction
}

// undoAction undoes an action; it has a name.
type undoAction struct {
	what string
	do   func(context.Context) error
}

// recordUndo records how to undo an action, unless the action undid another one.
func (a *Actuator) recordUndo(what string, undoes bool, undo func(context.Context) error) {
	a.after = slices.DeleteFunc(a.after, func(u undoAction) bool { return u.what == what })
	if !undoes {
		a.after = append(a.after, undoAction{what, undo})
	}
}

// Undo undoes the actions that are still in effect, the last first.
func (a *Actuator) Undo(ctx context.Context) error {
	for _, u := range slices.Backward(slices.Clone(a.after)) {
		if err := u.do(ctx); err != nil {
			return fmt.Errorf("undo %s: %w", u.what, err)
		}
	}
	a.after = nil
	return nil
}

// WaitUntilUp waits until all ports of the fabric are up.
func (a *Actuator) WaitUntilUp(ctx context.Context) error {
	for {
		down, err := a.Fabric.NotUp(ctx)
		if err == nil && len(down) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the fabric is not whole again: ports not up: %v; %w", down, errors.Join(err, ctx.Err()))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Close ends losses and rate limits of this machine's interfaces.
func (a *Actuator) Close() error { return errors.Join(a.gray.Heal(""), a.rates.heal("")) }

// EnableLink takes a link up, or down, by a gNMI Set.
func (a *Actuator) EnableLink(ctx context.Context, id fabric.LinkID, up bool) error {
	err := a.Fabric.SetEnabled(ctx, id, up)
	if err == nil {
		a.recordUndo("link "+a.Fabric.LinkName(id), up, func(ctx context.Context) error { return a.EnableLink(ctx, id, true) })
	}
	return err
}

// carrier removes the carrier from a link's ends, or restores it.
func (a *Actuator) carrier(ctx context.Context, id fabric.LinkID, up bool) error {
	return a.setPower(ctx, "link", a.Fabric.LinkName(id), up)
}

// SetLoss makes a link silently lose a share of its packets, 1 being all; 0 ends that.
func (a *Actuator) SetLoss(ctx context.Context, id fabric.LinkID, dir scenario.Direction, loss float64) error {
	name := a.Fabric.LinkName(id)
	if a.Interface == "" {
		return a.carryOut(ctx, Order{Do: "gray", Name: name, Direction: dir, Loss: loss}, loss == 0, Order{Do: "gray", Name: name})
	}
	ends, err := a.sendingInterfaces(id, dir)
	if err != nil {
		return err
	}
	if err = a.gray.Set(name, ends, loss); err == nil {
		a.recordUndo("gray "+name, loss == 0, func(context.Context) error { return a.gray.Heal(name) })
	}
	return err
}

// SetRate limits a link to a rate; 0 restores its own.
func (a *Actuator) SetRate(ctx context.Context, id fabric.LinkID, dir scenario.Direction, rate fabric.Rate) error {
	name := a.Fabric.LinkName(id)
	if a.Interface == "" {
		return a.carryOut(ctx, Order{Do: "rate", Name: name, Direction: dir, Rate: int64(rate)}, rate == 0, Order{Do: "rate", Name: name})
	}
	ends, err := a.sendingInterfaces(id, dir)
	if err != nil {
		return err
	}
	if err = a.rates.set(name, ends, rate); err == nil {
		a.recordUndo("rate "+name, rate == 0, func(context.Context) error { return a.rates.heal(name) })
	}
	return err
}

// ClearImpairments ends the losses and rate limits that SetLoss and SetRate made on a link.
func (a *Actuator) ClearImpairments(ctx context.Context, id fabric.LinkID) error {
	return errors.Join(a.SetRate(ctx, id, scenario.BothDirections, 0), a.SetLoss(ctx, id, scenario.BothDirections, 0))
}

// sendingInterfaces returns the interfaces that send into a link between switches, in one direction or both.
func (a *Actuator) sendingInterfaces(id fabric.LinkID, dir scenario.Direction) ([]string, error) {
	l := a.Fabric.Link(id)
	var names []string
	for _, e := range []struct {
		fabric.End
		dir scenario.Direction
	}{{l.A, scenario.Upward}, {l.B, scenario.Downward}} {
		if int(e.Node) < a.Fabric.Hosts() {
			return nil, fmt.Errorf("%s is a host's, with an end elsewhere; name a link between switches", a.Fabric.LinkName(id))
		}
		if dir == scenario.BothDirections || dir == e.dir {
			names = append(names, fmt.Sprintf(a.Interface, a.Fabric.Name(e.Node), e.Port))
		}
	}
	return names, nil
}

// SetSwitchRunning starts a switch, or kills it.
func (a *Actuator) SetSwitchRunning(ctx context.Context, id fabric.NodeID, up bool) error {
	return a.setPower(ctx, "node", a.Fabric.Name(id), up)
}

// SetControllerRunning starts a controller, or kills it.
func (a *Actuator) SetControllerRunning(ctx context.Context, up bool) error {
	return a.setPower(ctx, "controller", "", up)
}

// SetAgentRunning lets a host's agent continue, or stops it.
func (a *Actuator) SetAgentRunning(ctx context.Context, id fabric.NodeID, up bool) error {
	return a.setPower(ctx, "agent", a.Fabric.Name(id), up)
}

// setPower orders a part of the fabric down, or up.
func (a *Actuator) setPower(ctx context.Context, thing, name string, up bool) error {
	back := Order{Do: thing + "-up", Name: name}
	if up {
		return a.carryOut(ctx, back, true, back)
	}
	return a.carryOut(ctx, Order{Do: thing + "-down", Name: name}, false, back)
}

// carryOut has an order carried out, and remembers its inverse unless the order itself undoes another one.
func (a *Actuator) carryOut(ctx context.Context, o Order, undoes bool, undo Order) error {
	if err := a.canOrder(); err != nil {
		return err
	}
	if err := a.Control(ctx, o); err != nil {
		return err
	}
	a.recordUndo(strings.TrimSpace(undo.Do+" "+undo.Name), undoes, func(ctx context.Context) error { return a.carryOut(ctx, undo, true, undo) })
	return nil
}

// drainLimit is the time allowed for a drain.
const drainLimit = 30 * time.Second

// Drain takes a link or a switch, by name, out of use, or back into use.
func (a *Actuator) Drain(ctx context.Context, name string, drained bool) error {
	if err := a.canDrain(); err != nil {
		return err
	}
	query := url.Values{"name": {name}}
	if !drained {
		query.Set("undo", "true")
	}
	err := a.Client.Ask(ctx, http.MethodPost, a.Admin, "/drain", query, drainLimit, new(json.RawMessage))
	// Without an answer, or without a switch's acknowledgement, the drain is kept nevertheless.
	if refused, ok := errors.AsType[*adminhttp.Refusal](err); !ok || refused.Code == http.StatusGatewayTimeout {
		a.recordUndo("drain "+name, !drained, func(ctx context.Context) error { return a.Drain(ctx, name, false) })
	}
	return err
}

// canOrder returns an error if only the fabric's maker can carry something out and there is none.
func (a *Actuator) canOrder() error {
	if a.Control == nil {
		return errors.New("processes cannot be ended or started: the deployment names no control socket")
	}
	return nil
}

// canSet returns an error if no switch at a link can be set to disable it. Without a fabric that is not known.
func (a *Actuator) canSet(id fabric.LinkID) error {
	if a.Fabric == nil {
		return nil
	}
	return a.Fabric.canSet(id)
}

// canImpair returns an error if neither this process nor a maker has a link's interfaces.
func (a *Actuator) canImpair(id fabric.LinkID) error {
	if a.Interface != "" {
		_, err := a.sendingInterfaces(id, scenario.BothDirections)
		return err
	}
	if a.Control == nil {
		return errors.New("the switches' interfaces are not on this machine")
	}
	return nil
}

// canDrain returns an error if the controller's address is unknown.
func (a *Actuator) canDrain() error {
	if a.Admin == "" || a.Client.Token == "" {
		return errors.New("drains take admin and admin_token_file in the deployment")
	}
	return nil
}
