package process

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// Model is a data path that replaces the interpreter, such as a chip's functional model running the program for that
// chip. Controllers write the interpreter's tables, and the model copies them. The device makes one call at a time,
// except for CountedAt. After an error the device uses the model no more.
type Model interface {
	// Counting is what the model has counted since Use.
	interp.Counting
	// LastPort returns the highest port number.
	LastPort() uint32
	// Use makes the model copy a switch's tables from now on.
	Use(sw *interp.Switch) error
	// Sync copies the tables' changes to the model. The data path's lock is held.
	Sync() error
	// Forward processes packets, of which only Port and Data are set, and returns the output, in order.
	Forward(packets []interp.Input) ([]interp.Output, error)
	// ReadBack copies the model's registers, which packets change, to the switch. The data path's lock is held.
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

// modelDatapath is the program on a model. Packets pass through it without the device's mu, under which the control
// side works.
type modelDatapath struct {
	interpreterDatapath
	d   *Device
	in  chan interp.Input
	out []interp.Output // packets from the model; the device's mu guards it

	mu     sync.Mutex // guards the following fields
	model  Model
	failed error // why packets are dropped
}

func newModel(d *Device) *modelDatapath {
	return &modelDatapath{d: d, model: d.cfg.Model, in: make(chan interp.Input, modelQueue)}
}

func (m *modelDatapath) close() error { return m.model.Close() }

// use makes the model's tables follow a switch's.
func (m *modelDatapath) use(sw *interp.Switch) func() {
	return func() {
		m.do(func() error { return m.model.Use(sw) })
		sw.AddCounting(m)
		m.sync()
	}
}

// Counted returns a cell of an indirect counter, for [interp.Counting].
func (m *modelDatapath) Counted(id program.CounterID, index int) (packets, bytes uint64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failed != nil {
		return 0, 0, fmt.Errorf("switch: the model has ended: %w", m.failed)
	}
	return m.model.Counted(id, index)
}

// CountedAt returns the direct counter of a table entry, for [interp.Counting].
func (m *modelDatapath) CountedAt(id program.TableID, place int) (packets, bytes uint64, err error) {
	return m.model.CountedAt(id, place)
}

// do makes a call of the model. After an error the model forwards nothing, because its tables are not those that
// controllers read.
func (m *modelDatapath) do(call func() error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failed != nil {
		return
	}
	if err := call(); err != nil {
		m.failed = err
		m.d.log.Error("the model forwards no more packets", "err", err)
	}
}

func (m *modelDatapath) sync() { m.do(m.model.Sync) }

// processInstead queues a packet for the model.
func (m *modelDatapath) processInstead(number uint32, b []byte) bool {
	select {
	case m.in <- interp.Input{Port: number, Data: slices.Clone(b)}:
	default:
		m.d.stats.TailDrops++
	}
	return true
}

// run passes packets to the model.
func (m *modelDatapath) run(ctx context.Context) error {
	for {
		var batch []interp.Input
		select {
		case <-ctx.Done():
			return ctx.Err()
		case p := <-m.in:
			batch = append(batch, p)
		}
		for more := true; more && len(batch) < modelBurst; {
			select {
			case p := <-m.in:
				batch = append(batch, p)
			default:
				more = false
			}
		}
		var out []interp.Output
		m.do(func() (err error) {
			out, err = m.model.Forward(batch)
			return err
		})
		m.d.mu.mu.Lock()
		m.out = append(m.out, out...)
		m.do(m.model.ReadBack)
		m.d.mu.mu.Unlock()
		m.d.poller.Wake()
	}
}

// deliver sends the model's output.
func (m *modelDatapath) deliver() {
	d := m.d
	for _, p := range m.out {
		e := d.egressOf(p.Port)
		switch {
		case e == nil && p.Port == d.cfg.CPUPort && d.cfg.CPUPort != 0:
			d.stats.PacketIn++
			data := slices.Clone(p.Data)
			d.runLater(func() { d.core.PacketIn(data) })
		case e == nil:
			d.stats.NoPort++
		case !e.up:
			d.stats.PortDown++
			e.drops++
		case !e.makeRoom():
			d.stats.TailDrops++
			e.drops++
		default:
			e.addToBatch(p.Data, 0)
		}
	}
	m.out = m.out[:0]
}
