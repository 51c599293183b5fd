package process

import (
	"context"

	"github.com/ethereal-fabric/ethereal/p4switch/port"
)

// Limits of the messages that wait for the control side.
const (
	maxCalls = 1024
	maxLinks = 1 << 16 // maximum number of link changes kept here; more wait in the kernel
)

// pendingNotices are forwarding's messages to the control side. The device's mu guards them.
type pendingNotices struct {
	links []portLink
	calls []func()
	ready chan struct{}
}

// portLink is a change of a port's interface.
type portLink struct {
	e *egress
	port.Link
}

func (t *pendingNotices) signal() {
	select {
	case t.ready <- struct{}{}:
	default:
	}
}

// runLater schedules f to be called under the control side's lock. Forwarding calls it.
func (d *Device) runLater(f func()) bool {
	if len(d.notifications.calls) >= maxCalls {
		d.stats.NoticeDrops++
		return false
	}
	d.notifications.calls = append(d.notifications.calls, f)
	d.notifications.signal()
	return true
}

// notifyLoop passes messages to the control side until ctx ends.
func (d *Device) notifyLoop(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-d.notifications.ready:
		}
		d.control.Lock()
		d.notifyNow()
		d.control.Unlock()
	}
}

// notifyNow passes the waiting messages on. It is called under the control side's lock.
func (d *Device) notifyNow() {
	d.mu.Lock()
	links, calls := d.notifications.links, d.notifications.calls
	d.notifications.links, d.notifications.calls = nil, nil
	due := d.linksDue
	d.mu.Unlock()
	for _, l := range links {
		d.noteLink(l.e, l.Link)
	}
	for _, f := range calls {
		f()
	}
	if due { // forwarding left changes in the kernel until there was room
		d.poller.Wake()
	}
}
