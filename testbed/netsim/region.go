package netsim

import (
	"github.com/ethereal-fabric/ethereal/fabric"
)

// region is a part of the network with a clock, events and packets of its own:
// all of it, or what one core simulates beside others. A node, the directions in
// which it sends and the arrivals of those it receives from belong to one region.
type region struct {
	net       *Network
	cfg       *Config
	fab       *fabric.Fabric
	overhead  int64
	buffer    int64
	alpha     int64 // of alphaUnit
	topClass  uint8
	cellShift int // log2 of the cell, -1 if it is no power of two

	now      fabric.Time
	queue    queue
	controls controls
	pool     pool

	// Of the whole network; a region touches its own elements only.
	dirs     []direction
	arrivals []arrival
	hosts    []host
	switches []switchNode
	logs     []eventLog

	copies     []Copy // scratch of forward
	inPipeline bool
	receiving  fabric.NodeID // host in Receive, or -1

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
		r.control(r.controls.pop())
		return true
	}
	if !ok || at > by {
		return false
	}
	e := r.queue.pop()
	r.now = at
	r.events++
	switch e.kind() {
	case eventArrive:
		r.arrive(LinkDir(e.entity()))
	case eventReady:
		r.ready(LinkDir(e.entity()))
	default:
		r.poll(fabric.NodeID(e.entity()))
	}
	return true
}

// control runs a control function.
func (r *region) control(c *control) {
	r.now = c.at
	r.events++
	r.recordControl(c.sequence)
	c.f(c.at)
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
