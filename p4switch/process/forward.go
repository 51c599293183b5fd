package process

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/port"
)

// maxBurst is the largest number of frames taken from a port before the next port's turn.
const maxBurst = 64

// forward is the data plane's goroutine.
func (d *Device) forward(ctx context.Context) error {
	defer port.LockThread()()
	if d.cfg.Realtime > 0 {
		if err := port.Realtime(d.cfg.Realtime); err != nil {
			return fmt.Errorf("switch: priority %d: %w; it takes CAP_SYS_NICE", d.cfg.Realtime, err)
		}
	}
	var events []port.Event
	timeout := time.Duration(0) // ports may hold frames from before Attach
	for ctx.Err() == nil {
		var err error
		if events, err = d.poller.Wait(timeout, events[:0]); err != nil {
			return err
		}
		d.mu.lockForForwarding()
		for {
			d.now = d.monotonicNanoseconds()
			d.handlePollEvents(events)
			events = events[:0]
			d.runRound()
			pause := time.Duration(0)
			if len(d.ready) == 0 && len(d.pending) == 0 && d.recirc.n == 0 && d.portless.n == 0 {
				if pause = d.gatherTime(); pause == 0 {
					break
				}
			}
			d.mu.unlockAfterForwarding()
			if pause > 0 {
				d.poller.Pause(pause)
			} else {
				d.mu.yield()
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			// A port that just got room must not wait for busy ones.
			if d.rounds++; d.poller.Pending() || d.blocked > 0 || d.rounds%pollInterval == 0 {
				if events, err = d.poller.Wait(0, events[:0]); err != nil {
					return err
				}
			}
			d.mu.lockForForwarding()
			if pause > 0 {
				for _, e := range d.ports {
					d.markReady(e)
				}
			}
		}
		timeout = d.untilRelease()
		d.mu.unlockAfterForwarding()
	}
	return ctx.Err()
}

// pollInterval is the number of rounds after which a busy data plane checks for link changes.
const pollInterval = 16

// gatherTime returns how long to wait for more packets to gather; 0 if packets are rare, or if so many packets wait for
// timers that the thread must not sleep.
func (d *Device) gatherTime() time.Duration {
	w := d.cfg.Coalesce
	now := d.monotonicNanoseconds()
	since := now - d.lastWork
	got := d.stats.Ingress != d.lastIngress
	d.lastWork, d.lastIngress = now, d.stats.Ingress
	if w <= 0 || !got || since > 2*int64(w) || d.cfg.QueueRate > 0 {
		return 0
	}
	return w
}

// monotonicNanoseconds returns the time on the data plane's clock, in ns. It does not jump when the system's wall clock
// is set.
func (d *Device) monotonicNanoseconds() int64 { return int64(time.Since(d.clockStart)) }

// unixNanoseconds returns the data plane's time in ns since the Unix epoch.
func (d *Device) unixNanoseconds() int64 { return d.start + d.monotonicNanoseconds() }

// handlePollEvents handles the poller's events.
func (d *Device) handlePollEvents(events []port.Event) {
	for _, ev := range events {
		if ev.ID == linksID {
			d.linksDue = true
			continue
		}
		e := d.ports[ev.ID]
		if ev.In {
			d.markReady(e)
		}
		if ev.Out && e.blocked {
			e.unblock()
			d.spawned = 0
			e.sendBatch()
			e.sendQueued()
		}
	}
	if d.linksDue && len(d.notifications.links) < maxLinks {
		d.linksDue = false
		if err := d.cfg.Links.Read(d.linkChanged); err != nil {
			d.log.Error("link state", "err", err) // forwarding continues
		}
	}
}

func (d *Device) markReady(e *egress) {
	if !e.isReady {
		e.isReady = true
		d.ready = append(d.ready, e)
	}
}

// runRound does one round: injected packets, recirculated packets, a burst from each ready port, packets without port,
// and the sending of all batches.
func (d *Device) runRound() {
	d.injectNow()
	for n := d.recirc.n; n > 0; n-- {
		x := d.recirc.pop()
		at := len(d.batch.Packets)
		tag := x.p.Tag
		d.spawned = 0
		if x.p.Stage == interp.StageIngress {
			x.sw.Resume(x.p, d.now, &d.batch)
		} else {
			d.batch.Packets = append(d.batch.Packets, x.p)
		}
		d.routeBatch(x.sw, at, tag)
	}
	keep := d.ready[:0]
	for _, e := range d.ready {
		if e.port.Receive(maxBurst, e.receive) == maxBurst {
			keep = append(keep, e)
		} else {
			e.isReady = false
		}
	}
	d.ready = keep
	d.datapath.deliver()
	for n := d.portless.n; n > 0; n-- {
		d.spawned = 0
		d.dropWithoutPort(d.portless.pop(), uint32(d.portless.n))
	}
	if d.cfg.QueueRate > 0 {
		for _, e := range d.ports {
			e.sendQueued()
		}
	}
	for _, e := range d.staged {
		if !e.blocked {
			e.sendBatch()
		}
		e.staged = false
	}
	d.staged = d.staged[:0]
}

// injectNow processes the packets that wait to be injected. A packet that is injected may call it.
func (d *Device) injectNow() {
	for d.injected < len(d.pending) {
		f := d.pending[d.injected]
		d.pending[d.injected] = injectedFrame{}
		d.injected++
		d.ingress(f.port, f.data, 0)
	}
	d.pending, d.injected = d.pending[:0], 0
}

// untilRelease returns the time until a queue's rate permits a packet; -1: for ever.
func (d *Device) untilRelease() time.Duration {
	if d.cfg.QueueRate == 0 {
		return -1
	}
	wait := time.Duration(-1)
	for _, e := range d.ports {
		if at, ok := e.nextRelease(); ok && !e.blocked {
			w := max(time.Duration(at-d.monotonicNanoseconds()), 0)
			if wait < 0 || w < wait {
				wait = w
			}
		}
	}
	return wait
}

// processFrame processes a received frame. All resulting packets get its tag.
func (d *Device) processFrame(number uint32, b []byte, tag uint64) {
	d.stats.Ingress++
	d.ingress(number, b, tag)
}

func (d *Device) ingress(number uint32, b []byte, tag uint64) {
	if d.sw == nil {
		d.stats.NoProgram++
		return
	}
	d.now = d.monotonicNanoseconds()
	if d.datapath.processInstead(number, b) {
		return
	}
	at := len(d.batch.Packets)
	d.spawned = 0
	d.sw.Ingress(interp.Input{Port: number, Data: b, Now: d.now}, &d.batch)
	d.routeBatch(d.sw, at, tag)
}

// routeBatch forwards the packets of the batch from position at on, with a tag, and removes them.
func (d *Device) routeBatch(sw *interp.Switch, at int, tag uint64) {
	for i := at; i < len(d.batch.Packets); i++ {
		p := d.batch.Packets[i]
		p.Tag = tag
		if p.Stage == interp.StageIngress {
			d.recirculate(sw, p)
			continue
		}
		if e := d.egressOf(p.EgressPort); e != nil {
			e.acceptPacket(queued{sw: sw, p: p})
			continue
		}
		if p.EgressPort != d.cfg.CPUPort || d.cfg.CPUPort == 0 {
			d.queueNowhere(queued{sw: sw, p: p, at: d.now, depth: uint32(d.portless.n)})
			continue
		}
		o, ok := sw.Egress(p, interp.QueueState{EnqTime: d.now, DeqTime: d.now}, &d.batch)
		if ok {
			d.stats.PacketIn++
			data := slices.Clone(o.Data)
			d.runLater(func() { d.core.PacketIn(data) })
		}
	}
	d.batch.Packets = d.batch.Packets[:at]
}

// recirculate keeps a packet for the next round.
func (d *Device) recirculate(sw *interp.Switch, p *interp.Packet) {
	if d.recirc.n >= maxRecirculated {
		d.stats.RecircDrops++
		sw.Free(p)
		return
	}
	d.stats.Recirculated++
	d.recirc.push(queued{sw: sw, p: p})
}

// maxSpawned bounds the packets that one packet becomes in one round. More, as of clones that are cloned without end,
// wait for the next round.
const maxSpawned = 256

// routeSpawned forwards the packets that egress made from a packet, such as clones.
func (d *Device) routeSpawned(sw *interp.Switch, at int, tag uint64) {
	if d.spawned += len(d.batch.Packets) - at; d.spawned <= maxSpawned {
		d.routeBatch(sw, at, tag)
		return
	}
	for _, p := range d.batch.Packets[at:] {
		p.Tag = tag
		d.recirculate(sw, p)
	}
	d.batch.Packets = d.batch.Packets[:at]
}

// queueNowhere queues a packet for a port without interface. Its egress pipeline runs nevertheless, as it may clone
// or recirculate the packet; the missing interface is noticed on transmission, as in BMv2.
func (d *Device) queueNowhere(x queued) {
	if d.portless.n >= d.cfg.QueueDepth {
		d.stats.TailDrops++
		x.sw.Free(x.p)
		return
	}
	d.portless.push(x)
}

// dropWithoutPort runs the egress pipeline of a packet whose port has no interface.
func (d *Device) dropWithoutPort(x queued, depth uint32) {
	at := len(d.batch.Packets)
	state := interp.QueueState{EnqTime: x.at, DeqTime: d.now, EnqDepth: x.depth, DeqDepth: depth}
	tag := x.p.Tag
	if _, ok := x.sw.Egress(x.p, state, &d.batch); ok {
		d.stats.NoPort++
	}
	d.routeSpawned(x.sw, at, tag)
}
