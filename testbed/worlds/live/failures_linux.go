package live

import (
	"context"
	"errors"
	"fmt"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/monotonic"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// CutMethod is a method of cutting a link.
type CutMethod string

// Methods of cutting a link.
const (
	// Silently lets both directions swallow what is sent, and nobody notices.
	Silently CutMethod = "silent"
	// LinkDown takes the interface of the link's lower end down.
	LinkDown CutMethod = "link-down"
	// GNMI asks the switch at the link's lower end to disable its port, by a gNMI
	// Set of config/enabled. A host's link is taken down at its ToR.
	GNMI CutMethod = "gnmi"
	// Kill kills the switch at the link's upper end. All of its links go down.
	Kill CutMethod = "kill"
)

// CutMethods returns all methods of cutting a link.
func CutMethods() []CutMethod { return []CutMethod{Silently, LinkDown, GNMI, Kill} }

// Cut cuts a link. It returns when that is done, and when it was, in ns of
// CLOCK_MONOTONIC: the moment after which the link carries nothing, or for a
// killed switch the moment before.
func (x *Fabric) Cut(ctx context.Context, id fabric.LinkID, how CutMethod) (at int64, err error) {
	at = monotonic.Now()
	switch how {
	case Silently:
		err = x.silence(id, true)
	case LinkDown:
		err = x.wires[id][0].setUp(false)
	case GNMI:
		err = x.enable(ctx, id, false)
	case Kill:
		err = x.KillSwitch(x.f.Link(id).B.Node)
		return at, err
	default:
		err = fmt.Errorf("live: no way to cut a link is called %q; use one of %v", how, CutMethods())
	}
	return at, err
}

// Restore undoes [Fabric.Cut] of the same link in the same way, and waits until
// the link is up.
func (x *Fabric) Restore(ctx context.Context, id fabric.LinkID, how CutMethod) (at int64, err error) {
	switch how {
	case Silently:
		err = x.silence(id, false)
	case LinkDown:
		err = x.wires[id][0].setUp(true)
	case GNMI:
		err = x.enable(ctx, id, true)
	case Kill:
		err = x.ReviveSwitch(ctx, x.f.Link(id).B.Node)
	default:
		err = fmt.Errorf("live: no way to cut a link is called %q; use one of %v", how, CutMethods())
	}
	at = monotonic.Now()
	if err != nil {
		return at, err
	}
	return at, WaitFor(ctx, StartLimit, x.f.LinkName(id)+" is up", func() (bool, error) {
		for _, w := range x.wires[id] {
			if up, err := w.isUp(); !up || err != nil {
				return false, err
			}
		}
		return true, nil
	})
}

// silence makes a link swallow both directions, or carry again as if nothing had
// ever been wrong with it.
func (x *Fabric) silence(id fabric.LinkID, on bool) error {
	if on {
		return x.setLoss(id, scenario.BothDirections, 1)
	}
	return errors.Join(x.setRate(id, scenario.BothDirections, 0), x.setLoss(id, scenario.BothDirections, 0))
}

// concerns reports whether one way of a link, or both, is what leaves an end: the lower end's goes up.
func concerns(dir scenario.Direction, end int) bool {
	return dir == scenario.BothDirections || dir == [...]scenario.Direction{scenario.Upward, scenario.Downward}[end]
}

// setLoss has one way of a link, or both, lose a share of the packets: 1, all, without anybody noticing; 0, none. The
// rate stays.
func (x *Fabric) setLoss(id fabric.LinkID, dir scenario.Direction, loss float64) error {
	for i, w := range x.wires[id] {
		if !concerns(dir, i) {
			continue
		}
		silent := loss >= 1
		if !silent {
			if err := x.lose(id, i, loss); err != nil {
				return err
			}
		}
		if w.silent == silent {
			continue
		}
		w.silent = silent
		if err := w.shape(x.mtu); err != nil {
			return err
		}
	}
	return nil
}

// setRate has one way of a link, or both, carry a rate, or the link's own where that is 0. What they lose stays.
func (x *Fabric) setRate(id fabric.LinkID, dir scenario.Direction, rate fabric.Rate) error {
	if rate < 0 {
		return fmt.Errorf("live: %s: a rate of %d bits/s; 0 is its own", x.f.LinkName(id), rate)
	}
	if rate == 0 {
		rate = x.rate(x.f.Link(id))
	}
	for i, w := range x.wires[id] {
		if !concerns(dir, i) || w.rate == rate {
			continue
		}
		w.rate = rate
		if err := w.shape(x.mtu); err != nil {
			return err
		}
	}
	return nil
}

// lose makes what leaves one end of a link lose a share of its packets; 0 ends
// that.
func (x *Fabric) lose(id fabric.LinkID, end int, loss float64) error {
	name := fmt.Sprintf("%d/%d", id, end)
	if loss == 0 {
		return x.gray.Heal(name)
	}
	e := [...]fabric.End{x.f.Link(id).A, x.f.Link(id).B}[end]
	return x.thread.in(x.space(e.Node).ns, func() error { return x.gray.Set(name, []string{x.wires[id][end].name}, loss) })
}

// KillSwitch kills a switch; its links go down.
func (x *Fabric) KillSwitch(id fabric.NodeID) error {
	i := int(id) - x.f.Hosts()
	if i < 0 || i >= len(x.switches) {
		return fmt.Errorf("live: node %d is no switch", id)
	}
	x.mu.Lock()
	p := x.switches[i]
	x.mu.Unlock()
	if p == nil {
		return fmt.Errorf("live: %s is dead already", x.f.Name(id))
	}
	// A dead box has no carrier, from that moment on and not from when the kernel
	// has cleared the process away.
	p.strike()
	err := x.dark(id)
	<-p.done
	return err
}

// dark takes all links of a switch down, at their other ends: there it is noticed
// at once. A lost carrier the kernel may tell up to a second late.
func (x *Fabric) dark(id fabric.NodeID) error {
	for p := fabric.PortNo(1); int(p) <= x.f.Node(id).Ports(); p++ {
		if err := x.peer(id, x.f.Node(id).Link(p)).setUp(false); err != nil {
			return err
		}
	}
	return nil
}

// peer returns the other end of a node's link.
func (x *Fabric) peer(id fabric.NodeID, l fabric.LinkID) *wire {
	return x.end(l, x.f.Link(l).Peer(id).Node)
}

// ReviveSwitch starts a killed switch again and takes its links up.
func (x *Fabric) ReviveSwitch(ctx context.Context, id fabric.NodeID) error {
	if err := x.startSwitch(id); err != nil {
		return err
	}
	if err := x.waitSwitch(ctx, id); err != nil {
		return err
	}
	for p := fabric.PortNo(1); int(p) <= x.f.Node(id).Ports(); p++ {
		if err := x.peer(id, x.f.Node(id).Link(p)).setUp(true); err != nil {
			return err
		}
	}
	return nil
}
