package p4runtime

import (
	"math"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

// checkDirect checks the direct resources in a table entry.
func (t *tableState) checkDirect(te *p4.TableEntry) error {
	if te.GetCounterData() != nil {
		if t.directCounter == 0 {
			return rpc.Invalidf("the table has no direct counter; leave counter_data unset")
		}
		if err := checkCounter(te.GetCounterData()); err != nil {
			return err
		}
	}
	if te.GetMeterConfig() != nil {
		if t.directMeter == nil {
			return rpc.Invalidf("the table has no direct meter; leave meter_config unset")
		}
		if err := t.directMeter.checkConfig(te.GetMeterConfig()); err != nil {
			return err
		}
	}
	return noColours(te.GetMeterCounterData())
}

// noColours refuses requests about a meter's counters per colour.
func noColours(d *p4.MeterCounterData) error {
	if d != nil {
		return rpc.Errorf(codes.Unimplemented, "meters have no counters per colour in this data plane")
	}
	return nil
}

func checkCounter(d *p4.CounterData) error {
	if d.GetByteCount() < 0 || d.GetPacketCount() < 0 {
		return rpc.Invalidf("counter values %d and %d; they must not be negative", d.GetPacketCount(), d.GetByteCount())
	}
	return nil
}

// checkConfig applies the specification's rules for the meter's type.
func (m *meterSchema) checkConfig(c *p4.MeterConfig) error {
	if c.GetCir() < 0 || c.GetCburst() < 0 || c.GetPir() < 0 || c.GetPburst() < 0 || c.GetEburst() < 0 {
		return rpc.Invalidf("meter %s: rates and bursts must not be negative", m.name)
	}
	single := c.GetPir() == c.GetCir() && c.GetPburst() == c.GetCburst()
	switch m.kind {
	case p4config.MeterSpec_TWO_RATE_THREE_COLOR:
		if c.GetEburst() != 0 {
			return rpc.Invalidf("meter %s has two rates; eburst must be unset", m.name)
		}
		if c.GetPir() < c.GetCir() {
			return rpc.Invalidf("meter %s: pir %d is below cir %d", m.name, c.GetPir(), c.GetCir())
		}
	case p4config.MeterSpec_SINGLE_RATE_TWO_COLOR:
		if !single || c.GetEburst() != 0 {
			return rpc.Invalidf("meter %s has a single rate and two colours; pir and pburst must equal cir and cburst, eburst be unset", m.name)
		}
	case p4config.MeterSpec_SINGLE_RATE_THREE_COLOR:
		if !single {
			return rpc.Invalidf("meter %s has a single rate; pir and pburst must equal cir and cburst", m.name)
		}
		if c.GetEburst() != 0 {
			return rpc.Errorf(codes.Unimplemented, "meter %s: this data plane has no excess burst", m.name)
		}
	}
	return nil
}

func meterConfig(c *p4.MeterConfig) interp.MeterConfig {
	return interp.MeterConfig{CIR: c.GetCir(), CBurst: c.GetCburst(), PIR: c.GetPir(), PBurst: c.GetPburst()}
}

// initDirect sets the initial values of a new entry's counter and meter.
func (p *pipeline) initDirect(t *tableState, e *entry, te *p4.TableEntry) error {
	if err := p.setDirectCounter(t, e, te.GetCounterData()); err != nil {
		return err
	}
	if c := te.GetMeterConfig(); c != nil {
		return fromSwitch(p.sw.SetDirectMeter(t.tid, e.handle, meterConfig(c)))
	}
	return nil
}

// modifyDirect applies the direct resources of a MODIFY: an absent counter stays, an absent meter returns to its
// default.
func (p *pipeline) modifyDirect(t *tableState, e *entry, te *p4.TableEntry) error {
	if err := p.setDirectCounter(t, e, te.GetCounterData()); err != nil {
		return err
	}
	if t.directMeter == nil {
		return nil
	}
	return p.setDirectMeter(t, e, te.GetMeterConfig())
}

// setDirectCounter sets the counter of an entry; nil: it stays.
func (p *pipeline) setDirectCounter(t *tableState, e *entry, d *p4.CounterData) error {
	if d == nil {
		return nil
	}
	return fromSwitch(p.sw.SetDirectCounter(t.tid, e.handle, uint64(d.GetPacketCount()), uint64(d.GetByteCount())))
}

func (p *pipeline) setDirectMeter(t *tableState, e *entry, c *p4.MeterConfig) error {
	var err error
	switch {
	case c != nil:
		err = p.sw.SetDirectMeter(t.tid, e.handle, meterConfig(c))
	case e.meter != nil:
		err = p.sw.ClearDirectMeter(t.tid, e.handle)
	}
	if err != nil {
		return fromSwitch(err)
	}
	old := e.meter
	p.onUndo(func() { e.meter = old })
	e.meter = c
	return nil
}

// directTable returns the table and entry of a direct counter or meter update.
func (p *pipeline) directTable(r *role, typ p4.Update_Type, te *p4.TableEntry) (*tableState, *entry, error) {
	if typ != p4.Update_MODIFY {
		return nil, nil, rpc.Invalidf("a direct counter or meter lives and dies with its entry; it can be modified only")
	}
	if te == nil {
		return nil, nil, rpc.Invalidf("table_entry is not set")
	}
	t, err := p.tableFor(r, te.GetTableId())
	if err != nil {
		return nil, nil, err
	}
	if te.GetIsDefaultAction() {
		return t, &t.miss, rpc.PrefixError("table "+t.name, checkDefaultKey(te))
	}
	e, err := p.findEntry(t, te)
	return t, e, rpc.PrefixError("table "+t.name, err)
}

func (p *pipeline) writeDirectCounter(r *role, typ p4.Update_Type, dc *p4.DirectCounterEntry) error {
	t, e, err := p.directTable(r, typ, dc.GetTableEntry())
	if err != nil {
		return err
	}
	if t.directCounter == 0 {
		return rpc.Invalidf("table %s has no direct counter", t.name)
	}
	if err := checkCounter(dc.GetData()); err != nil {
		return rpc.PrefixError("table "+t.name, err)
	}
	return p.setDirectCounter(t, e, dc.GetData())
}

func (p *pipeline) writeDirectMeter(r *role, typ p4.Update_Type, dm *p4.DirectMeterEntry) error {
	t, e, err := p.directTable(r, typ, dm.GetTableEntry())
	if err != nil {
		return err
	}
	if t.directMeter == nil {
		return rpc.Invalidf("table %s has no direct meter", t.name)
	}
	if err := noColours(dm.GetCounterData()); err != nil {
		return err
	}
	if c := dm.GetConfig(); c != nil {
		if err := t.directMeter.checkConfig(c); err != nil {
			return rpc.PrefixError("table "+t.name, err)
		}
	}
	return rpc.PrefixError("table "+t.name, p.setDirectMeter(t, e, dm.GetConfig()))
}

// counterData converts counts, limited to P4Runtime's signed range.
func counterData(packets, bytes uint64) *p4.CounterData {
	return &p4.CounterData{PacketCount: int64(min(packets, math.MaxInt64)), ByteCount: int64(min(bytes, math.MaxInt64))}
}
