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

type cellArray interface {
	base() *object
	cells() int
}

// writeCells modifies the cells at index, or all. prepare checks the request and returns a function that sets a
// cell; nil: there is nothing to set.
func writeCells[A cellArray](
	p *pipeline, r *role, typ p4.Update_Type, arrays objects[A], id uint32, index *p4.Index, prepare func(A) (func(i int) error, error),
) error {
	if err := modifyOnly(arrays.kind, typ); err != nil {
		return err
	}
	a, err := arrays.find(p.schema, r, id)
	if err != nil {
		return err
	}
	from, to, err := cellsOf(index, a.cells())
	if err != nil {
		return rpc.PrefixError(arrays.kind+" "+a.base().name, err)
	}
	set, err := prepare(a)
	if set == nil || err != nil {
		return err
	}
	for i := from; i < to; i++ {
		p.core.plane.workDone(1)
		if err := set(i); err != nil {
			return fromSwitch(err)
		}
	}
	return nil
}

// readArrays calls read with each requested array, and its cells.
func readArrays[A cellArray](p *pipeline, r *role, arrays objects[A], id uint32, index *p4.Index, read func(a A, from, to int) error) error {
	if id == 0 && index != nil {
		return rpc.Invalidf("index is set and %s_id is not", arrays.kind)
	}
	list, err := arrays.named(p.schema, r, id)
	if err != nil {
		return err
	}
	for _, a := range list {
		from, to, err := cellsOf(index, a.cells())
		if err != nil {
			return rpc.PrefixError(arrays.kind+" "+a.base().name, err)
		}
		if err := read(a, from, to); err != nil {
			return err
		}
	}
	return nil
}

func (p *pipeline) writeCounter(r *role, typ p4.Update_Type, ce *p4.CounterEntry) error {
	return writeCells(p, r, typ, p.counters, ce.GetCounterId(), ce.GetIndex(), func(c *counterSchema) (func(int) error, error) {
		d := ce.GetData()
		if d == nil {
			return nil, nil
		}
		if err := checkCounter(d); err != nil {
			return nil, rpc.PrefixError("counter "+c.name, err)
		}
		return func(i int) error {
			return p.sw.SetCounter(c.cid, i, uint64(d.GetPacketCount()), uint64(d.GetByteCount()))
		}, nil
	})
}

func (p *pipeline) readCounter(r *role, ce *p4.CounterEntry, emit func(*p4.CounterEntry) error) error {
	return readArrays(p, r, p.counters, ce.GetCounterId(), ce.GetIndex(), func(c *counterSchema, from, to int) error {
		return readCells(p, from, to, func(i int) (*p4.CounterData, error) {
			packets, bytes, err := p.sw.Counter(c.cid, i)
			return counterData(packets, bytes), err
		}, func(i int, d *p4.CounterData) error {
			return emit(&p4.CounterEntry{CounterId: c.id, Index: &p4.Index{Index: int64(i)}, Data: d})
		})
	})
}

func (p *pipeline) writeMeter(r *role, typ p4.Update_Type, me *p4.MeterEntry) error {
	return writeCells(p, r, typ, p.meters, me.GetMeterId(), me.GetIndex(), func(m *meterSchema) (func(int) error, error) {
		if err := noColours(me.GetCounterData()); err != nil {
			return nil, err
		}
		c := me.GetConfig()
		if c == nil {
			return func(i int) error { return p.sw.ClearMeter(m.mid, i) }, nil
		}
		return func(i int) error { return p.sw.SetMeter(m.mid, i, meterConfig(c)) }, m.checkConfig(c)
	})
}

func (p *pipeline) readMeter(r *role, me *p4.MeterEntry, emit func(*p4.MeterEntry) error) error {
	if err := noColours(me.GetCounterData()); err != nil {
		return err
	}
	return readArrays(p, r, p.meters, me.GetMeterId(), me.GetIndex(), func(m *meterSchema, from, to int) error {
		return readCells(p, from, to, func(i int) (*p4.MeterConfig, error) {
			c, set, err := p.sw.Meter(m.mid, i)
			if !set {
				return nil, err
			}
			return &p4.MeterConfig{Cir: c.CIR, Cburst: c.CBurst, Pir: c.PIR, Pburst: c.PBurst}, err
		}, func(i int, c *p4.MeterConfig) error {
			return emit(&p4.MeterEntry{MeterId: m.id, Index: &p4.Index{Index: int64(i)}, Config: c})
		})
	})
}

func (p *pipeline) writeRegister(r *role, typ p4.Update_Type, re *p4.RegisterEntry) error {
	return writeCells(p, r, typ, p.registers, re.GetRegisterId(), re.GetIndex(), func(g *registerSchema) (func(int) error, error) {
		if re.GetData() == nil {
			return nil, rpc.Invalidf("register %s: data is not set", g.name)
		}
		width := p.prog.Registers[g.rid].Width
		// Packed from the left, the value ends at bit (width+7)/8*8 of the buffer.
		w := bitWriter{b: make([]byte, (width+7)/8), off: (8 - width%8) % 8}
		if err := p.decomposeData(g.spec, re.GetData(), w.put, 0); err != nil {
			return nil, rpc.PrefixError("register "+g.name, err)
		}
		return func(i int) error { return p.sw.SetRegister(g.rid, i, w.b) }, nil
	})
}

func (p *pipeline) readRegister(r *role, re *p4.RegisterEntry, emit func(*p4.RegisterEntry) error) error {
	return readArrays(p, r, p.registers, re.GetRegisterId(), re.GetIndex(), func(g *registerSchema, from, to int) error {
		leaves, err := p.scalarsOf(nil, g.spec, 0)
		if err != nil {
			return rpc.PrefixError("register "+g.name, err)
		}
		width := p.prog.Registers[g.rid].Width
		return readCells(p, from, to, func(i int) ([]byte, error) { return p.sw.Register(g.rid, i) }, func(i int, b []byte) error {
			rd, n := bitReader{b: b, off: len(b)*8 - width}, 0
			data, err := p.composeData(g.spec, func() []byte { n++; return rd.next(leaves[n-1].width) }, 0)
			if err != nil {
				return rpc.PrefixError("register "+g.name, err)
			}
			return emit(&p4.RegisterEntry{RegisterId: g.id, Index: &p4.Index{Index: int64(i)}, Data: data})
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

// cellsOf returns the range of an array's cells that an index names: one, or all if it is unset.
func cellsOf(index *p4.Index, size int) (from, to int, err error) {
	if index == nil {
		return 0, size, nil
	}
	switch i := index.GetIndex(); {
	case i < 0:
		return 0, 0, rpc.Invalidf("index %d; it must not be negative", i)
	case i >= int64(size):
		return 0, 0, rpc.Errorf(codes.OutOfRange, "index %d; the array has %d cells", i, size)
	default:
		return int(i), int(i) + 1, nil
	}
}
