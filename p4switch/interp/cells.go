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

// Counting is who counts packets of the switch beside it: what it says is part of
// every cell that is read. It says how many packets and bytes ever, by a cell of an
// indirect counter and by an entry's place in its table.
type Counting interface {
	Counted(id program.CounterID, index int) (packets, bytes uint64, err error)
	CountedAt(id program.TableID, place int) (packets, bytes uint64, err error) // place -1: the default entry's
}

// AddCounting adds c's counts to the switch's own from now on; nil ends that and drops what c counted. The switch's own
// cell holds the written value minus c's count, modulo 2^64.
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

// Counter reads a cell of an indirect counter.
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
	s.setCell(c.touch(uint64(index)), packets-p, bytes-b)
	return nil
}

func (s *Switch) setCell(w []uint64, packets, bytes uint64) {
	p, b := w[0], w[1]
	w[0], w[1] = packets, bytes
	s.onRollback(func() { w[0], w[1] = p, b })
}

func (s *Switch) direct(id program.TableID, h Handle) (*tableState, int32, error) {
	ts, err := s.table(id)
	if err != nil {
		return nil, 0, err
	}
	if !ts.t.Info.HasDirectCounter {
		return nil, 0, fmt.Errorf("interp: table %q: %w: it has no direct counter", ts.t.Info.Name, ErrInvalid)
	}
	i, err := ts.place(h)
	return ts, i, err
}

// place is where an entry's direct counter and meter are: -1 for those of the default entry.
func (ts *tableState) place(h Handle) (int32, error) {
	if h == DefaultEntry {
		return -1, nil
	}
	return ts.entry(h)
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
	ts, i, err := s.direct(id, h)
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
	ts, i, err := s.direct(id, h)
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

// SetMeter configures a cell; its buckets start full.
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

// ClearMeter makes a cell unconfigured: every packet is green.
func (s *Switch) ClearMeter(id program.MeterID, index int) error {
	a, err := s.meter(id, index)
	if err != nil {
		return err
	}
	putMeter(s, a.cells, uint64(index), nil)
	return nil
}

// Meter reads a cell; set is false when it is not configured.
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
	ts, err := s.table(id)
	if err != nil {
		return nil, 0, err
	}
	if ts.t.Info.DirectMeter < 0 {
		return nil, 0, fmt.Errorf("interp: table %q: %w: it has no direct meter", ts.t.Info.Name, ErrInvalid)
	}
	i, err := ts.place(h)
	return ts, i, err
}

// SetDirectMeter configures an entry's meter.
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
	s.changed(id)
	putMeter(s, ts.meters, i, newMeter(c, s.now))
	return nil
}

// ClearDirectMeter makes an entry's meter unconfigured.
func (s *Switch) ClearDirectMeter(id program.TableID, h Handle) error {
	ts, i, err := s.directMeterOf(id, h)
	if err != nil {
		return err
	}
	s.changed(id)
	putMeter(s, ts.meters, i, nil)
	return nil
}

// DirectMeter reads an entry's meter; set is false when it is not configured.
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

// Register reads a cell as ceil(width/8) bytes.
func (s *Switch) Register(id program.RegisterID, index int) ([]byte, error) {
	r, err := s.register(id, index)
	if err != nil {
		return nil, err
	}
	return bytesOfWords(r.cell(uint64(index)), r.width), nil
}

// SetRegister writes a cell.
func (s *Switch) SetRegister(id program.RegisterID, index int, value []byte) error {
	r, err := s.register(id, index)
	if err != nil {
		return err
	}
	w := make([]uint64, r.words)
	if err := putValue(w, value, r.width); err != nil {
		return fmt.Errorf("interp: register %q: %w", s.p.Registers[id].Name, err)
	}
	c := r.touch(uint64(index))
	old := slices.Clone(c)
	put := func(w []uint64) {
		copy(c, w)
		r.notifyWatcher(uint64(index), c)
	}
	put(w)
	s.onRollback(func() { put(old) })
	return nil
}

// WatchRegister has f called with every write to a register of at most 64 bits,
// packets' and the control plane's, and now of the cells that are not 0. One
// watches at a time; nil ends it.
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
