package process

import (
	"context"

	"github.com/ethereal-fabric/ethereal/p4switch/port"
)

// Limits of the messages that wait for the control side.
const (
	maxCalls = 1024
	maxLinks = 1 << 16 // more wait in the kernel
)

// pendingNotices are forwarding's messages to the control side. The device's mu guards them.
type pendingNotices struct {
	links []port.Link
	calls []func()
	ready chan struct{}
}

func (t *pendingNotices) signal() {
	select {
	case t.ready <- struct{}{}:
	default:
	}
}

// later calls f under the control side's lock, some time later. Forwarding calls it.
func (d *Device) later(f func()) bool {
	if len(d.toTell.calls) >= maxCalls {
		d.stats.NoticeDrops++
		return false
	}
	d.toTell.calls = append(d.toTell.calls, f)
	d.toTell.signal()
	return true
}

// notifyLoop passes messages to the control side until ctx ends.
func (d *Device) notifyLoop(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-d.toTell.ready:
		}
		d.control.Lock()
		d.notifyNow()
		d.control.Unlock()
	}
}

// notifyNow passes the waiting messages on. It is called under the control side's lock.
func (d *Device) notifyNow() {
	d.mu.Lock()
	links, calls := d.toTell.links, d.toTell.calls
	d.toTell.links, d.toTell.calls = nil, nil
	due := d.linksDue
	d.mu.Unlock()
	for _, l := range links {
		d.noteLink(l)
	}
	for _, f := range calls {
		f()
	}
	if due { // forwarding left changes in the kernel until there was room
		d.poller.Wake()
	}
}
