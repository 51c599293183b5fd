package sim

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/heap"
)

// region is a part of the network with a clock, events and packets of its own:
// all of it, or what one core simulates beside others. A node, the directions in
// which it sends and the arrivals of those it receives from belong to one region.
type region struct {
	net       *Network
	cfg       *Config
	fab       *fabric.Fabric
	overhead  int64
	admission admission
	topClass  uint8
	flow      *flowControl // of the whole network; nil: no PFC
	cellShift int          // log2 of the cell, -1 if it is no power of two

	index          int
	now            fabric.Time
	tie            uint64   // of the event that is carried out
	runningControl *control // the control function that is carried out; nil: none is
	queue          queue
	controls       heap.Heap[*control]
	pool           *packetPool // of its own, or of all on one core

	// Of the whole network; a region touches its own elements only.
	dirs     []direction
	arrivals []arrival
	ports    []host
	hosts    []host
	switches []switchNode
	logs     []eventLog

	copies    []Copy        // scratch of forward
	receiving fabric.NodeID // host in Receive, or -1

	// Beside other regions:
	concurrent    bool            // in a window
	crossings     [2][][]crossing // by parity of the window and region
	firstCrossing fabric.Time     // when the first of what crossed in the window arrives
	journal       []windowEntry
	merged        int    // of the journal
	eventsBefore  int64  // events, up to the window
	scheduled     uint32 // control functions, in the window

	totals Totals
	hops   int64
	events int64
	err    error
}

// step carries out the next event if it is due by a time. It reports whether
// there was one.
func (r *region) step(by fabric.Time) bool {
	at, ok := r.queue.peek()
	if len(r.controls) > 0 && (!ok || r.controls[0].at <= at) {
		if r.controls[0].at > by {
			return false
		}
		r.control(r.controls.Pop())
		return true
	}
	if !ok || at > by {
		return false
	}
	r.packet(r.queue.pop())
	return true
}

// packet carries out an event of a port or a host.
func (r *region) packet(e event) {
	r.now, r.tie = e.at, e.tie
	r.events++
	switch e.kind() {
	case eventArrive:
		r.arrive(LinkDir(e.entity()))
	case eventReady:
		r.ready(LinkDir(e.entity()))
	case eventWatch:
		r.watchdog(LinkDir(e.entity()))
	default:
		r.poll(int(e.entity()))
	}
}

// control runs a control function.
func (r *region) control(c *control) {
	r.now, r.runningControl = c.at, c
	r.events++
	if r.concurrent {
		r.note(entryRan, c, nil)
	} else {
		r.net.recordControl(c.at, c.sequence)
	}
	c.f(c.at)
	r.runningControl = nil
}

// next returns when the next event is due. ok is false when there is none.
func (r *region) next() (at fabric.Time, ok bool) {
	at, ok = r.queue.peek()
	if len(r.controls) > 0 && (!ok || r.controls[0].at < at) {
		return r.controls[0].at, true
	}
	return at, ok
}

// fail makes Run return err.
func (r *region) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}
