package live

import (
	"context"
	"errors"
	"fmt"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/monotonic"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// CutMethod is a method of making a link fail.
type CutMethod string

// Methods of cutting a link.
const (
	// Silently makes both directions lose all packets; no port goes down.
	Silently CutMethod = "silent"
	// LinkDown sets the interface at the link's lower end down.
	LinkDown CutMethod = "link-down"
	// GNMI makes the switch at the link's lower end disable its port, by a gNMI Set of config/enabled. A host's link is
	// disabled at its ToR.
	GNMI CutMethod = "gnmi"
	// Kill kills the switch at the link's upper end. All of its links go down.
	Kill CutMethod = "kill"
)

// CutMethods returns all methods of making a link fail.
func CutMethods() []CutMethod { return []CutMethod{Silently, LinkDown, GNMI, Kill} }

// Cut cuts a link, and returns when it was cut, in ns of CLOCK_MONOTONIC: after that time the link carries nothing. For
// a killed switch it is the time just before.
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

// Restore undoes [Fabric.Cut] of the same link by the same method, and waits until the link is up. at is the time of
// the repair, in ns of CLOCK_MONOTONIC.
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

// concerns reports whether a direction of a link, or both, includes packets that leave an end; those of the lower end
// go up.
func concerns(dir scenario.Direction, end int) bool {
	return dir == scenario.BothDirections || dir == [...]scenario.Direction{scenario.Upward, scenario.Downward}[end]
}

// setLoss sets the loss probability of one direction of a link, or of both, without a change of the port states; 0:
// none. The rate is unchanged.
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

// setRate sets the rate of one direction of a link, or of both; 0: the link's own rate. The loss is unchanged.
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

// lose makes packets that leave one end of a link be lost at random with a probability; 0 ends this.
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
	p.sendKill()
	err := x.takeLinksDown(id)
	<-p.done
	return err
}

// takeLinksDown takes all links of a switch down at their other ends, where the failure is detected at once. The kernel
// may report a lost carrier up to a second late.
func (x *Fabric) takeLinksDown(id fabric.NodeID) error {
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

// ReviveSwitch starts a killed switch again and sets its links up.
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
