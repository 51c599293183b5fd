package device

import (
	"context"
	"errors"
	"fmt"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/p4switch/port"
)

// setPort changes the port's state. All programs get IBV_EVENT_PORT_ACTIVE or IBV_EVENT_PORT_ERR.
func (n *NIC) setPort(up bool) {
	if n.down == !up {
		return
	}
	n.down = !up
	kind := uint32(eventPortErr)
	if up {
		kind = eventPortActive
	}
	for c := range n.clients {
		c.event(0, kind)
	}
}

// followPort keeps the port's state that of the network interface, until ctx ends. It returns nil then.
func (n *NIC) followPort(ctx context.Context, d Driver) (err error) {
	links, err := port.OpenLinks()
	if err != nil {
		return fmt.Errorf("nic: %w", err)
	}
	poller, err := port.NewPoller()
	if err != nil {
		return errors.Join(fmt.Errorf("nic: %w", err), links.Close())
	}
	defer func() { err = errors.Join(err, links.Close(), poller.Close()) }()
	if err := links.Attach(poller, 0); err != nil {
		return fmt.Errorf("nic: %w", err)
	}
	defer context.AfterFunc(ctx, poller.Wake)()
	defer port.LockThread()()
	all, err := links.List()
	set := func(l port.Link) {
		if l.Name == n.cfg.Interface {
			d.Call(ctx, func(fabric.Time) { n.setPort(l.Up) }) //nolint:errcheck // else the process ends
		}
	}
	for _, l := range all {
		set(l)
	}
	var events []port.Event
	for err == nil && ctx.Err() == nil {
		if events, err = poller.Wait(-1, events[:0]); err == nil {
			err = links.Read(set)
		}
	}
	if err != nil {
		return fmt.Errorf("nic: state of %s: %w", n.cfg.Interface, err)
	}
	return nil
}
