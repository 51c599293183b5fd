package process

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/program"
	"github.com/ethereal-fabric/ethereal/p4switch/tofino"
)

// Model names the functional model of a Tofino, and its program.
type Model struct {
	Harness  string // the program that runs the model; empty: no model
	Pipeline string // the folder with tofino.bin and context.json
}

// The model takes milliseconds per packet, so packets wait for it: at most this many; the model gets a few at a
// time.
const (
	modelQueue = 256
	modelBurst = 16
)

// onModel is the program on the model of a chip, if configured. Packets pass through it without the device's mu,
// under which the control side works.
type onModel struct {
	in   chan tofino.Packet // nil: not configured
	done chan struct{}      // closed after the last packet
	out  []tofino.Packet    // packets from the model; the device's mu guards it

	mu     sync.Mutex // guards the following fields
	model  *tofino.Model
	mirror *tofino.Mirror
	failed error // why packets are dropped
}

// openModel starts the model.
func (d *Device) openModel() error {
	if d.cfg.Model.Harness == "" {
		return nil
	}
	for _, e := range d.ports {
		if e.number > tofino.LastPort {
			return fmt.Errorf("switch: port %d (%s): the model's ports are 0 to %d", e.number, e.name, tofino.LastPort)
		}
	}
	m, err := tofino.Start(context.Background(), d.cfg.Model.Harness, d.cfg.Model.Pipeline)
	if err != nil {
		return fmt.Errorf("switch: %w", err)
	}
	mirror, err := tofino.NewMirror(m)
	if err != nil {
		return errors.Join(fmt.Errorf("switch: %w", err), m.Close())
	}
	d.model.model, d.model.mirror = m, mirror
	d.model.in, d.model.done = make(chan tofino.Packet, modelQueue), make(chan struct{})
	go d.passThroughModel()
	d.mu.leaving = d.syncModel
	return nil
}

// closeModel ends the model. The device's mu is not held, because a packet from the model may wait for it.
func (d *Device) closeModel() error {
	if d.model.in == nil {
		return nil
	}
	close(d.model.in)
	d.model.in = nil
	<-d.model.done
	return d.model.model.Close()
}

// modelBy makes the model's tables follow a switch's from now on.
func (d *Device) modelBy(sw *interp.Switch) {
	if d.model.in != nil {
		d.model.mu.Lock()
		err := d.model.mirror.Use(sw)
		if err != nil && d.model.failed == nil {
			d.modelFailed(err)
		}
		d.model.mu.Unlock()
		sw.AddCounting(modelCounts{d})
		d.syncModel()
	}
}

// modelCounts are the model's counters: see [interp.Counting].
type modelCounts struct{ d *Device }

// Counted implements [interp.Counting].
func (m modelCounts) Counted(id program.CounterID, index int) (packets, bytes uint64, err error) {
	m.d.model.mu.Lock()
	defer m.d.model.mu.Unlock()
	if err := m.d.model.failed; err != nil {
		return 0, 0, fmt.Errorf("switch: the model has ended: %w", err)
	}
	return m.d.model.mirror.Counted(id, index)
}

// CountedAt implements [interp.Counting].
func (m modelCounts) CountedAt(id program.TableID, place int) (packets, bytes uint64, err error) {
	return m.d.model.mirror.CountedAt(id, place)
}

// syncModel writes the control side's changes to the model. After an error the model forwards nothing, because its
// tables are not those that controllers read.
func (d *Device) syncModel() {
	if d.model.in == nil {
		return
	}
	d.model.mu.Lock()
	defer d.model.mu.Unlock()
	if d.model.failed != nil {
		return
	}
	if err := d.model.mirror.Sync(); err != nil {
		d.modelFailed(err)
	}
}

func (d *Device) modelFailed(err error) {
	d.model.failed = err
	d.log.Error("the model forwards no more packets", "err", err)
}

// toModel queues a packet for the model.
func (d *Device) toModel(number uint32, b []byte) {
	select {
	case d.model.in <- tofino.Packet{Port: number, Data: slices.Clone(b)}:
	default:
		d.stats.TailDrops++
	}
}

// passThroughModel passes packets to the model until there are no more.
func (d *Device) passThroughModel() {
	in := d.model.in
	defer close(d.model.done)
	for p := range in {
		batch := []tofino.Packet{p}
		for more := true; more && len(batch) < modelBurst; {
			select {
			case q, ok := <-in:
				if more = ok; ok {
					batch = append(batch, q)
				}
			default:
				more = false
			}
		}
		out := d.inModel(batch)
		d.mu.mu.Lock()
		d.model.out = append(d.model.out, out...)
		d.keepPortDown()
		d.mu.mu.Unlock()
		d.poller.Wake()
	}
}

// inModel passes packets to the model, and returns its output.
func (d *Device) inModel(batch []tofino.Packet) []tofino.Packet {
	d.model.mu.Lock()
	defer d.model.mu.Unlock()
	if d.model.failed != nil {
		return nil
	}
	out, err := d.model.mirror.InjectAll(batch)
	if err != nil {
		d.modelFailed(err)
	}
	return out
}

// keepPortDown makes the switch's register of dead ports follow the model's.
func (d *Device) keepPortDown() {
	d.model.mu.Lock()
	defer d.model.mu.Unlock()
	if d.model.failed != nil {
		return
	}
	if err := d.model.mirror.KeepPortDown(); err != nil {
		d.modelFailed(err)
	}
}

// fromModel sends the model's output.
func (d *Device) fromModel() {
	for _, p := range d.model.out {
		e := d.egress(p.Port)
		switch {
		case e == nil && p.Port == d.cfg.CPUPort && d.cfg.CPUPort != 0:
			d.stats.PacketIn++
			data := slices.Clone(p.Data)
			d.later(func() { d.core.PacketIn(data) })
		case e == nil:
			d.stats.NoPort++
		case !e.up:
			d.stats.PortDown++
			e.drops++
		case !e.room():
			d.stats.TailDrops++
			e.drops++
		default:
			e.stage(p.Data, 0)
		}
	}
	d.model.out = d.model.out[:0]
}

// excludes returns an error for settings that exclude a model.
func (m Model) excludes(c *Config) error {
	switch {
	case m.Harness == "":
		return nil
	case c.Kernel:
		return errors.New("switch: the model forwards, or the kernel; leave one of them out")
	case c.QueueRate > 0:
		return errors.New("switch: the model's queues have no rate, so no queue rate; leave one of them out")
	}
	return nil
}
