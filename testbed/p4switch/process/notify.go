package process

import (
	"context"

	"github.com/ethereal-fabric/ethereal/testbed/port"
)

// Bounds of what waits for the control side.
const (
	maxCalls = 1024
	maxLinks = 1 << 16 // more wait in the kernel
)

// pendingNotices are what forwarding has to say to the control side. They are guarded by
// the device's mu.
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

// later has f called under the control side's lock. Forwarding calls it.
func (d *Device) later(f func()) bool {
	if len(d.toTell.calls) >= maxCalls {
		d.stats.NoticeDrops++
		return false
	}
	d.toTell.calls = append(d.toTell.calls, f)
	d.toTell.signal()
	return true
}

// notifyLoop passes notices to the control side until ctx ends.
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

// notifyNow is notify's work. It is called under the control side's lock.
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
	if due { // forwarding left news in the kernel until there was room
		d.poller.Wake()
	}
}
