package p4runtime

import (
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"

	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

// Counters, meters and registers: arrays whose cells can be modified and read, at one index or all.

func modifyOnly(kind string, typ p4.Update_Type) error {
	if typ != p4.Update_MODIFY {
		return rpc.Invalidf("a %s can be modified only, not %v", kind, typ)
	}
	return nil
}

// find returns the array with an id, if the role may access it.
func find[A interface{ base() *array }](s *schema, r *role, kind string, arrays map[uint32]A, id uint32) (A, error) {
	a, ok := arrays[id]
	if !ok {
		return a, s.unknown(kind, id)
	}
	return a, r.checkOwner(kind, a.base().object)
}

// writeCells modifies the cells at index, or all. prepare checks the request and returns a function that sets a
// cell; nil: there is nothing to set.
func writeCells[A interface{ base() *array }](
	p *pipeline, r *role, typ p4.Update_Type, kind string, arrays map[uint32]A, id uint32, index *p4.Index,
	prepare func(A) (func(i int) error, error),
) error {
	if err := modifyOnly(kind, typ); err != nil {
		return err
	}
	a, err := find(p.schema, r, kind, arrays, id)
	if err != nil {
		return err
	}
	from, to, err := cells(index, a.base().size)
	if err != nil {
		return rpc.Within(kind+" "+a.base().name, err)
	}
	set, err := prepare(a)
	if set == nil || err != nil {
		return err
	}
	for i := from; i < to; i++ {
		p.core.plane.did(1)
		if err := set(i); err != nil {
			return fromSwitch(err)
		}
	}
	return nil
}

// readArrays calls read with each requested array, and its cells.
func readArrays[A interface{ base() *array }](
	s *schema, r *role, kind string, arrays map[uint32]A, list []A, id uint32, index *p4.Index,
	read func(a A, from, to int) error,
) error {
	if id != 0 {
		a, err := find(s, r, kind, arrays, id)
		if err != nil {
			return err
		}
		list = []A{a}
	} else if index != nil {
		return rpc.Invalidf("index is set and %s_id is not", kind)
	}
	for _, a := range list {
		if !r.may(a.base().object) {
			continue
		}
		from, to, err := cells(index, a.base().size)
		if err != nil {
			return rpc.Within(kind+" "+a.base().name, err)
		}
		if err := read(a, from, to); err != nil {
			return err
		}
	}
	return nil
}

func (p *pipeline) writeCounter(r *role, typ p4.Update_Type, ce *p4.CounterEntry) error {
	return writeCells(p, r, typ, "counter", p.counters, ce.GetCounterId(), ce.GetIndex(), func(c *counterSchema) (func(int) error, error) {
		d := ce.GetData()
		if d == nil {
			return nil, nil
		}
		if err := checkCounter(d); err != nil {
			return nil, rpc.Within("counter "+c.name, err)
		}
		return func(i int) error {
			return p.sw.SetCounter(c.cid, i, uint64(d.GetPacketCount()), uint64(d.GetByteCount()))
		}, nil
	})
}

func (p *pipeline) readCounter(r *role, ce *p4.CounterEntry, emit emitter) error {
	return readArrays(p.schema, r, "counter", p.counters, p.counterList, ce.GetCounterId(), ce.GetIndex(), func(c *counterSchema, from, to int) error {
		return readCells(p, from, to, func(i int) (*p4.CounterData, error) {
			packets, bytes, err := p.sw.Counter(c.cid, i)
			return counterData(packets, bytes), err
		}, func(i int, d *p4.CounterData) error {
			out := &p4.CounterEntry{CounterId: c.id, Index: &p4.Index{Index: int64(i)}, Data: d}
			return emit(&p4.Entity{Entity: &p4.Entity_CounterEntry{CounterEntry: out}})
		})
	})
}

func (p *pipeline) writeMeter(r *role, typ p4.Update_Type, me *p4.MeterEntry) error {
	return writeCells(p, r, typ, "meter", p.meters, me.GetMeterId(), me.GetIndex(), func(m *meterSchema) (func(int) error, error) {
		if me.GetCounterData() != nil {
			return nil, rpc.Errorf(codes.Unimplemented, "meters have no counters per colour in this data plane")
		}
		c := me.GetConfig()
		if c == nil {
			return func(i int) error { return p.sw.ClearMeter(m.mid, i) }, nil
		}
		return func(i int) error { return p.sw.SetMeter(m.mid, i, meterConfig(c)) }, m.check(c)
	})
}

func (p *pipeline) readMeter(r *role, me *p4.MeterEntry, emit emitter) error {
	if me.GetCounterData() != nil {
		return rpc.Errorf(codes.Unimplemented, "meters have no counters per colour in this data plane")
	}
	return readArrays(p.schema, r, "meter", p.meters, p.meterList, me.GetMeterId(), me.GetIndex(), func(m *meterSchema, from, to int) error {
		return readCells(p, from, to, func(i int) (*p4.MeterConfig, error) {
			c, set, err := p.sw.Meter(m.mid, i)
			if !set {
				return nil, err
			}
			return &p4.MeterConfig{Cir: c.CIR, Cburst: c.CBurst, Pir: c.PIR, Pburst: c.PBurst}, err
		}, func(i int, c *p4.MeterConfig) error {
			out := &p4.MeterEntry{MeterId: m.id, Index: &p4.Index{Index: int64(i)}, Config: c}
			return emit(&p4.Entity{Entity: &p4.Entity_MeterEntry{MeterEntry: out}})
		})
	})
}

func (p *pipeline) writeRegister(r *role, typ p4.Update_Type, re *p4.RegisterEntry) error {
	return writeCells(p, r, typ, "register", p.registers, re.GetRegisterId(), re.GetIndex(), func(g *registerSchema) (func(int) error, error) {
		if re.GetData() == nil {
			return nil, rpc.Invalidf("register %s: data is not set", g.name)
		}
		width := p.prog.Registers[g.rid].Width
		// Packed from the left, the value ends at bit (width+7)/8*8 of the buffer.
		w := bitWriter{b: make([]byte, (width+7)/8), off: (8 - width%8) % 8}
		if err := p.decompose(g.spec, re.GetData(), w.put, 0); err != nil {
			return nil, rpc.Within("register "+g.name, err)
		}
		return func(i int) error { return p.sw.SetRegister(g.rid, i, w.b) }, nil
	})
}

func (p *pipeline) readRegister(r *role, re *p4.RegisterEntry, emit emitter) error {
	return readArrays(p.schema, r, "register", p.registers, p.registerList, re.GetRegisterId(), re.GetIndex(), func(g *registerSchema, from, to int) error {
		leaves, err := p.leaves(nil, g.spec, 0)
		if err != nil {
			return rpc.Within("register "+g.name, err)
		}
		width := p.prog.Registers[g.rid].Width
		return readCells(p, from, to, func(i int) ([]byte, error) { return p.sw.Register(g.rid, i) }, func(i int, b []byte) error {
			rd, n := bitReader{b: b, off: len(b)*8 - width}, 0
			data, err := p.compose(g.spec, func() []byte { n++; return rd.next(leaves[n-1].width) }, 0)
			if err != nil {
				return rpc.Within("register "+g.name, err)
			}
			out := &p4.RegisterEntry{RegisterId: g.id, Index: &p4.Index{Index: int64(i)}, Data: data}
			return emit(&p4.Entity{Entity: &p4.Entity_RegisterEntry{RegisterEntry: out}})
		})
	})
}

// readCells reads cells from the switch, a block at a time, and passes them on while packets may pass.
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
