package p4runtime

import (
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"

	"github.com/ethereal-fabric/ethereal/testbed/p4switch/rpc"
)

// Counters, meters and registers: arrays that can be modified and read, at
// one index or all.

func modifyOnly(kind string, typ p4.Update_Type) error {
	if typ != p4.Update_MODIFY {
		return rpc.Invalidf("a %s can be modified only, not %v", kind, typ)
	}
	return nil
}

func (s *schema) counter(r *role, id uint32) (*counterSchema, error) {
	c := s.counters[id]
	if c == nil {
		return nil, s.unknown("counter", id)
	}
	return c, r.checkOwner("counter", c.object)
}

func (p *pipeline) writeCounter(r *role, typ p4.Update_Type, ce *p4.CounterEntry) error {
	if err := modifyOnly("counter", typ); err != nil {
		return err
	}
	c, err := p.counter(r, ce.GetCounterId())
	if err != nil {
		return err
	}
	from, to, err := cells(ce.GetIndex(), c.size)
	if err != nil {
		return rpc.Within("counter "+c.name, err)
	}
	d := ce.GetData()
	if d == nil {
		return nil
	}
	if err := checkCounter(d); err != nil {
		return rpc.Within("counter "+c.name, err)
	}
	for i := from; i < to; i++ {
		p.core.plane.did(1)
		if err := p.sw.SetCounter(c.cid, i, uint64(d.GetPacketCount()), uint64(d.GetByteCount())); err != nil {
			return fromSwitch(err)
		}
	}
	return nil
}

func (p *pipeline) readCounter(r *role, ce *p4.CounterEntry, emit emitter) error {
	list := p.counterList
	if id := ce.GetCounterId(); id != 0 {
		c, err := p.counter(r, id)
		if err != nil {
			return err
		}
		list = []*counterSchema{c}
	} else if ce.GetIndex() != nil {
		return rpc.Invalidf("index is set and counter_id is not")
	}
	for _, c := range list {
		if !r.may(c.object) {
			continue
		}
		from, to, err := cells(ce.GetIndex(), c.size)
		if err != nil {
			return rpc.Within("counter "+c.name, err)
		}
		err = readCells(p, from, to, func(i int) (*p4.CounterData, error) {
			packets, bytes, err := p.sw.Counter(c.cid, i)
			return counterData(packets, bytes), err
		}, func(i int, d *p4.CounterData) error {
			out := &p4.CounterEntry{CounterId: c.id, Index: &p4.Index{Index: int64(i)}, Data: d}
			return emit(&p4.Entity{Entity: &p4.Entity_CounterEntry{CounterEntry: out}})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *schema) meter(r *role, id uint32) (*meterSchema, error) {
	m := s.meters[id]
	if m == nil {
		return nil, s.unknown("meter", id)
	}
	return m, r.checkOwner("meter", m.object)
}

func (p *pipeline) writeMeter(r *role, typ p4.Update_Type, me *p4.MeterEntry) error {
	if err := modifyOnly("meter", typ); err != nil {
		return err
	}
	m, err := p.meter(r, me.GetMeterId())
	if err != nil {
		return err
	}
	from, to, err := cells(me.GetIndex(), m.size)
	if err != nil {
		return rpc.Within("meter "+m.name, err)
	}
	if me.GetCounterData() != nil {
		return rpc.Errorf(codes.Unimplemented, "meters have no counters per colour in this data plane")
	}
	c := me.GetConfig()
	if c != nil {
		if err := m.check(c); err != nil {
			return err
		}
	}
	for i := from; i < to; i++ {
		p.core.plane.did(1)
		if c == nil {
			err = p.sw.ClearMeter(m.mid, i)
		} else {
			err = p.sw.SetMeter(m.mid, i, meterConfig(c))
		}
		if err != nil {
			return fromSwitch(err)
		}
	}
	return nil
}

func (p *pipeline) readMeter(r *role, me *p4.MeterEntry, emit emitter) error {
	if me.GetCounterData() != nil {
		return rpc.Errorf(codes.Unimplemented, "meters have no counters per colour in this data plane")
	}
	list := p.meterList
	if id := me.GetMeterId(); id != 0 {
		m, err := p.meter(r, id)
		if err != nil {
			return err
		}
		list = []*meterSchema{m}
	} else if me.GetIndex() != nil {
		return rpc.Invalidf("index is set and meter_id is not")
	}
	for _, m := range list {
		if !r.may(m.object) {
			continue
		}
		from, to, err := cells(me.GetIndex(), m.size)
		if err != nil {
			return rpc.Within("meter "+m.name, err)
		}
		err = readCells(p, from, to, func(i int) (*p4.MeterConfig, error) {
			c, set, err := p.sw.Meter(m.mid, i)
			if !set {
				return nil, err
			}
			return &p4.MeterConfig{Cir: c.CIR, Cburst: c.CBurst, Pir: c.PIR, Pburst: c.PBurst}, err
		}, func(i int, c *p4.MeterConfig) error {
			out := &p4.MeterEntry{MeterId: m.id, Index: &p4.Index{Index: int64(i)}, Config: c}
			return emit(&p4.Entity{Entity: &p4.Entity_MeterEntry{MeterEntry: out}})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *schema) register(r *role, id uint32) (*registerSchema, error) {
	g := s.registers[id]
	if g == nil {
		return nil, s.unknown("register", id)
	}
	return g, r.checkOwner("register", g.object)
}

func (p *pipeline) writeRegister(r *role, typ p4.Update_Type, re *p4.RegisterEntry) error {
	if err := modifyOnly("register", typ); err != nil {
		return err
	}
	g, err := p.register(r, re.GetRegisterId())
	if err != nil {
		return err
	}
	from, to, err := cells(re.GetIndex(), g.size)
	if err != nil {
		return rpc.Within("register "+g.name, err)
	}
	if re.GetData() == nil {
		return rpc.Invalidf("register %s: data is not set", g.name)
	}
	width := p.prog.Registers[g.rid].Width
	// Packed from the left, the value ends at bit (width+7)/8*8 of the buffer.
	w := bitWriter{b: make([]byte, (width+7)/8), off: (8 - width%8) % 8}
	if err := p.decompose(g.spec, re.GetData(), w.put, 0); err != nil {
		return rpc.Within("register "+g.name, err)
	}
	for i := from; i < to; i++ {
		p.core.plane.did(1)
		if err := p.sw.SetRegister(g.rid, i, w.b); err != nil {
			return fromSwitch(err)
		}
	}
	return nil
}

func (p *pipeline) readRegister(r *role, re *p4.RegisterEntry, emit emitter) error {
	list := p.registerList
	if id := re.GetRegisterId(); id != 0 {
		g, err := p.register(r, id)
		if err != nil {
			return err
		}
		list = []*registerSchema{g}
	} else if re.GetIndex() != nil {
		return rpc.Invalidf("index is set and register_id is not")
	}
	for _, g := range list {
		if !r.may(g.object) {
			continue
		}
		from, to, err := cells(re.GetIndex(), g.size)
		if err != nil {
			return rpc.Within("register "+g.name, err)
		}
		leaves, err := p.leaves(nil, g.spec, 0)
		if err != nil {
			return rpc.Within("register "+g.name, err)
		}
		width := p.prog.Registers[g.rid].Width
		err = readCells(p, from, to, func(i int) ([]byte, error) { return p.sw.Register(g.rid, i) }, func(i int, b []byte) error {
			rd, n := bitReader{b: b, off: len(b)*8 - width}, 0
			data, err := p.compose(g.spec, func() []byte { n++; return rd.next(leaves[n-1].width) }, 0)
			if err != nil {
				return rpc.Within("register "+g.name, err)
			}
			out := &p4.RegisterEntry{RegisterId: g.id, Index: &p4.Index{Index: int64(i)}, Data: data}
			return emit(&p4.Entity{Entity: &p4.Entity_RegisterEntry{RegisterEntry: out}})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// readCells reads cells from the switch, a block at a time, and hands them on
// while packets may pass.
func readCells[T any](p *pipeline, from, to int, read func(int) (T, error), put func(int, T) error) error {
	var block [readBlock]T
	for from < to {
		n := min(to-from, readBlock)
		p.core.plane.lock()
		for i := range n {
			var err error
			if block[i], err = read(from + i); err != nil {
				p.core.plane.unlock()
				return fromSwitch(err)
			}
		}
		p.core.plane.unlock()
		for i := range n {
			if err := put(from+i, block[i]); err != nil {
				return err
			}
		}
		from += n
	}
	return nil
}
