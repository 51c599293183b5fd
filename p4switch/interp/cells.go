package interp

import (
	"fmt"
	"slices"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

func indexError(what, name string, i, size int) error {
	return fmt.Errorf("interp: %s %q: index %d: %w: 0 to %d exist", what, name, i, ErrNotFound, size-1)
}

func (s *Switch) counter(id program.CounterID, i int) (*counterArray, error) {
	if id < 0 || int(id) >= len(s.counters) {
		return nil, fmt.Errorf("interp: counter %d: %w", id, ErrNotFound)
	}
	if i < 0 || i >= s.p.Counters[id].Size {
		return nil, indexError("counter", s.p.Counters[id].Name, i, s.p.Counters[id].Size)
	}
	return &s.counters[id], nil
}

// Counting is a second counter of the switch's packets, such as the kernel's data path. Its numbers, totals since it
// began, are added to each counter cell that is read.
type Counting interface {
	Counted(id program.CounterID, index int) (packets, bytes uint64, err error)
	// the direct counter of the table entry at a place; -1: of the default entry
	CountedAt(id program.TableID, place int) (packets, bytes uint64, err error)
}

// AddCounting adds c's counts to the switch's own when counters are read; nil ends that. If a counter is written, the
// switch's own count becomes the written value minus c's, modulo 2^64.
func (s *Switch) AddCounting(c Counting) { s.external = c }

func (s *Switch) externalCount(id program.CounterID, index int) (packets, bytes uint64, err error) {
	if s.external == nil {
		return 0, 0, nil
	}
	return s.external.Counted(id, index)
}

func (s *Switch) countedAt(id program.TableID, place int32) (packets, bytes uint64, err error) {
	if s.external == nil {
		return 0, 0, nil
	}
	return s.external.CountedAt(id, int(place))
}

// Counter returns a cell of an indirect counter.
func (s *Switch) Counter(id program.CounterID, index int) (packets, bytes uint64, err error) {
	c, err := s.counter(id, index)
	if err != nil {
		return 0, 0, err
	}
	if packets, bytes, err = s.externalCount(id, index); err != nil {
		return 0, 0, err
	}
	if w := c.cell(uint64(index)); w != nil {
		return packets + w[0], bytes + w[1], nil
	}
	return packets, bytes, nil
}

// SetCounter writes a cell of an indirect counter.
func (s *Switch) SetCounter(id program.CounterID, index int, packets, bytes uint64) error {
	c, err := s.counter(id, index)
	if err != nil {
		return err
	}
	p, b, err := s.externalCount(id, index)
	if err != nil {
		return err
	}
	s.setCell(c.makeCell(uint64(index)), packets-p, bytes-b)
	return nil
}

func (s *Switch) setCell(w []uint64, packets, bytes uint64) {
	p, b := w[0], w[1]
	w[0], w[1] = packets, bytes
	s.onRollback(func() { w[0], w[1] = p, b })
}

func (s *Switch) directCells(id program.TableID, h Handle) (*tableState, int32, error) {
	ts, err := s.tableByID(id)
	if err != nil {
		return nil, 0, err
	}
	if !ts.t.Info.HasDirectCounter {
		return nil, 0, fmt.Errorf("interp: table %q: %w: it has no direct counter", ts.t.Info.Name, ErrInvalid)
	}
	i, err := ts.directIndex(h)
	return ts, i, err
}

// directIndex returns the index of an entry's direct counter and meter; -1: those of the default entry.
func (ts *tableState) directIndex(h Handle) (int32, error) {
	if h == DefaultEntry {
		return -1, nil
	}
	return ts.entryIndex(h)
}

// countOf is the direct counter at a place.
func (ts *tableState) countOf(i int32) []uint64 {
	if i < 0 {
		return ts.missed[:]
	}
	return ts.counts[2*i : 2*i+2]
}

// DirectCounter reads an entry's counter.
func (s *Switch) DirectCounter(id program.TableID, h Handle) (packets, bytes uint64, err error) {
	ts, i, err := s.directCells(id, h)
	if err != nil {
		return 0, 0, err
	}
	if packets, bytes, err = s.countedAt(id, i); err != nil {
		return 0, 0, err
	}
	c := ts.countOf(i)
	return packets + c[0], bytes + c[1], nil
}

// SetDirectCounter writes an entry's counter.
func (s *Switch) SetDirectCounter(id program.TableID, h Handle, packets, bytes uint64) error {
	ts, i, err := s.directCells(id, h)
	if err != nil {
		return err
	}
	kp, kb, err := s.countedAt(id, i)
	if err != nil {
		return err
	}
	c := ts.countOf(i)
	p, b := c[0], c[1]
	c[0], c[1] = packets-kp, bytes-kb
	s.onRollback(func() { c := ts.countOf(i); c[0], c[1] = p, b }) // the slice may have moved
	return nil
}

func (s *Switch) meter(id program.MeterID, i int) (*meterArray, error) {
	if id < 0 || int(id) >= len(s.meters) {
		return nil, fmt.Errorf("interp: meter %d: %w", id, ErrNotFound)
	}
	m := &s.p.Meters[id]
	if m.Table >= 0 {
		return nil, fmt.Errorf("interp: meter %q: %w: it is direct; its cells are the entries of table %q", m.Name, ErrInvalid, s.p.Tables[m.Table].Info.Name)
	}
	if i < 0 || i >= m.Size {
		return nil, indexError("meter", m.Name, i, m.Size)
	}
	return &s.meters[id], nil
}

// checkMeter refuses what BMv2 refuses: a committed rate above the peak rate.
func checkMeter(name string, c MeterConfig) error {
	if c.CIR < 0 || c.PIR < 0 || c.CBurst < 0 || c.PBurst < 0 {
		return fmt.Errorf("interp: meter %q: %w: rates and bursts cannot be negative", name, ErrInvalid)
	}
	if c.CIR > c.PIR {
		return fmt.Errorf("interp: meter %q: %w: committed rate %d is above the peak rate %d", name, ErrInvalid, c.CIR, c.PIR)
	}
	return nil
}

// SetMeter sets the rates of a meter's cell. Its buckets start full.
func (s *Switch) SetMeter(id program.MeterID, index int, c MeterConfig) error {
	a, err := s.meter(id, index)
	if err != nil {
		return err
	}
	if err := checkMeter(s.p.Meters[id].Name, c); err != nil {
		return err
	}
	if a.cells == nil {
		a.cells = map[uint64]*meter{}
	}
	putMeter(s, a.cells, uint64(index), newMeter(c, s.now))
	return nil
}

// putMeter sets or, with nil, removes a meter.
func putMeter[K comparable](s *Switch, m map[K]*meter, k K, v *meter) {
	old := m[k]
	set := func(v *meter) {
		if v == nil {
			delete(m, k)
		} else {
			m[k] = v
		}
	}
	set(v)
	s.onRollback(func() { set(old) })
}

// ClearMeter removes the rates of a meter's cell: every packet is then green.
func (s *Switch) ClearMeter(id program.MeterID, index int) error {
	a, err := s.meter(id, index)
	if err != nil {
		return err
	}
	putMeter(s, a.cells, uint64(index), nil)
	return nil
}

// Meter returns the rates of a meter's cell; set is false if it has none.
func (s *Switch) Meter(id program.MeterID, index int) (c MeterConfig, set bool, err error) {
	a, err := s.meter(id, index)
	if err != nil {
		return c, false, err
	}
	if m := a.cells[uint64(index)]; m != nil {
		return m.cfg, true, nil
	}
	return c, false, nil
}

func (s *Switch) directMeterOf(id program.TableID, h Handle) (*tableState, int32, error) {
	ts, err := s.tableByID(id)
	if err != nil {
		return nil, 0, err
	}
	if ts.t.Info.DirectMeter < 0 {
		return nil, 0, fmt.Errorf("interp: table %q: %w: it has no direct meter", ts.t.Info.Name, ErrInvalid)
	}
	i, err := ts.directIndex(h)
	return ts, i, err
}

// SetDirectMeter sets the rates of a table entry's meter.
func (s *Switch) SetDirectMeter(id program.TableID, h Handle, c MeterConfig) error {
	ts, i, err := s.directMeterOf(id, h)
	if err != nil {
		return err
	}
	if err := checkMeter(s.p.Meters[ts.t.Info.DirectMeter].Name, c); err != nil {
		return err
	}
	if ts.meters == nil {
		ts.meters = map[int32]*meter{}
	}
	s.putDirectMeter(id, i, newMeter(c, s.now))
	return nil
}

// ClearDirectMeter removes the rates of a table entry's meter: every packet is then green.
func (s *Switch) ClearDirectMeter(id program.TableID, h Handle) error {
	_, i, err := s.directMeterOf(id, h)
	if err != nil {
		return err
	}
	s.putDirectMeter(id, i, nil)
	return nil
}

func (s *Switch) putDirectMeter(id program.TableID, i int32, m *meter) {
	s.onRollback(func() { s.noteChanged(id, i) })
	putMeter(s, s.tables[id].meters, i, m)
	s.noteChanged(id, i)
}

// DirectMeter returns the rates of a table entry's meter; set is false if it has none.
func (s *Switch) DirectMeter(id program.TableID, h Handle) (c MeterConfig, set bool, err error) {
	ts, i, err := s.directMeterOf(id, h)
	if err != nil {
		return c, false, err
	}
	if m := ts.meters[i]; m != nil {
		return m.cfg, true, nil
	}
	return c, false, nil
}

func (s *Switch) register(id program.RegisterID, i int) (*registerArray, error) {
	if id < 0 || int(id) >= len(s.registers) {
		return nil, fmt.Errorf("interp: register %d: %w", id, ErrNotFound)
	}
	if i < 0 || i >= s.p.Registers[id].Size {
		return nil, indexError("register", s.p.Registers[id].Name, i, s.p.Registers[id].Size)
	}
	return &s.registers[id], nil
}

// Register returns the value of a register's cell, in ceil(width/8) bytes, big-endian.
func (s *Switch) Register(id program.RegisterID, index int) ([]byte, error) {
	r, err := s.register(id, index)
	if err != nil {
		return nil, err
	}
	return bytesOfWords(r.cell(uint64(index)), r.width), nil
}

// SetRegister sets the value of a register's cell.
func (s *Switch) SetRegister(id program.RegisterID, index int, value []byte) error {
	r, err := s.register(id, index)
	if err != nil {
		return err
	}
	w := make([]uint64, r.words)
	if err := putValue(w, value, r.width); err != nil {
		return fmt.Errorf("interp: register %q: %w", s.p.Registers[id].Name, err)
	}
	c := r.makeCell(uint64(index))
	old := slices.Clone(c)
	put := func(w []uint64) {
		copy(c, w)
		r.notifyWatcher(uint64(index), c)
	}
	put(w)
	s.onRollback(func() { put(old) })
	return nil
}

// WatchRegister makes the switch call f for every write, by a packet or the control plane, to a register of at most 64
// bits, and now for its cells that are not 0. There is one watcher; nil removes it.
func (s *Switch) WatchRegister(id program.RegisterID, f func(index, value uint64)) error {
	r, err := s.register(id, 0)
	if err != nil {
		return err
	}
	r.watch = f
	if f == nil {
		return nil
	}
	for i := range r.size {
		if w := r.cell(i); w != nil && w[0] != 0 {
			f(i, w[0])
		}
	}
	return nil
}
