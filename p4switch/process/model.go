package process

import (
	"fmt"
	"slices"
	"sync"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// Model is a data path in the interpreter's place, such as a chip's functional model with the program for that chip. Its
// tables follow those of an interpreter's switch, which controllers write. The device makes one call at a time, except
// for CountedAt. After an error the device has it forward nothing.
type Model interface {
	// Counting is what the model has counted since Use.
	interp.Counting
	// LastPort is the highest number of a port.
	LastPort() uint32
	// Use makes the model follow a switch's tables from now on.
	Use(sw *interp.Switch) error
	// Sync writes the tables' changes to the model. Forwarding's lock is held.
	Sync() error
	// Forward passes packets, of which only Port and Data are set, and returns what leaves, in order.
	Forward(packets []interp.Input) ([]interp.Output, error)
	// ReadBack sets the switch's registers to what packets have made of them in the model. Forwarding's lock is held.
	ReadBack() error
	// Close ends the model.
	Close() error
}

// The model takes milliseconds per packet, so packets wait for it: at most this many; the model gets a few at a
// time.
const (
	modelQueue = 256
	modelBurst = 16
)

// onModel is the program on a model, if configured. Packets pass through it without the device's mu, under which the
// control side works.
type onModel struct {
	in   chan interp.Input // nil: not configured
	done chan struct{}     // closed after the last packet
	out  []interp.Output   // packets from the model; the device's mu guards it

	mu     sync.Mutex // guards the following fields
	model  Model
	failed error // why packets are dropped
}

// startModel has packets pass through the model from now on.
func (d *Device) startModel() {
	if d.cfg.Model == nil {
		return
	}
	d.model.model = d.cfg.Model
	d.model.in, d.model.done = make(chan interp.Input, modelQueue), make(chan struct{})
	go d.passThroughModel()
	d.mu.leaving = d.syncModel
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
		err := d.model.model.Use(sw)
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
	return m.d.model.model.Counted(id, index)
}

// CountedAt implements [interp.Counting].
func (m modelCounts) CountedAt(id program.TableID, place int) (packets, bytes uint64, err error) {
	return m.d.model.model.CountedAt(id, place)
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
	if err := d.model.model.Sync(); err != nil {
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
	case d.model.in <- interp.Input{Port: number, Data: slices.Clone(b)}:
	default:
		d.stats.TailDrops++
	}
}

// passThroughModel passes packets to the model until there are no more.
func (d *Device) passThroughModel() {
	in := d.model.in
	defer close(d.model.done)
	for p := range in {
		batch := []interp.Input{p}
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
		d.readBack()
		d.mu.mu.Unlock()
		d.poller.Wake()
	}
}

// inModel passes packets to the model, and returns its output.
func (d *Device) inModel(batch []interp.Input) []interp.Output {
	d.model.mu.Lock()
	defer d.model.mu.Unlock()
	if d.model.failed != nil {
		return nil
	}
	out, err := d.model.model.Forward(batch)
	if err != nil {
		d.modelFailed(err)
	}
	return out
}

// readBack makes the switch's registers follow the model's.
func (d *Device) readBack() {
	d.model.mu.Lock()
	defer d.model.mu.Unlock()
	if d.model.failed != nil {
		return
	}
	if err := d.model.model.ReadBack(); err != nil {
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
