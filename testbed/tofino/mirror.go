package tofino

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/p4src"
	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// cpuPort is the chip's port to the CPU: the program is compiled with it.
const cpuPort = 63

// LastPort is the highest ingress port.
const LastPort = cpuPort - 1

// unusedParameter is the parameter of set_device that the chip's program does not read, so that the harness does not
// know it.
const unusedParameter = "uplinks"

// intervalParameter is the parameter of set_device for the least time between quenches. The model's clock advances with
// packets: 1 of the chip's microseconds is 128 of them, and a switch's usual 1,000 as good as never.
const (
	intervalParameter = "quench_interval_us"
	neverQuench       = "0xffffffff"
)

// Mirror copies a v1model switch's tables to a model of the Tofino chip, so that packets can pass through the chip's
// program. It is not safe for concurrent use.
type Mirror struct {
	model    *Model
	selector selectorMemory
	sw       *interp.Switch
	device   string // what its only entry does in the model
	rows     map[string]*ternaryRows
	exact    map[string]*entries

	uplinks  map[uint32]int // by port: its index among the uplinks
	groups   map[string]*ecmpGroup
	trees    map[uint32]multicastTree // multicast groups
	sessions map[uint32]mirrorSession
	down     map[uint32]bool // ports of which the model saw a down event last

	before map[counterCell]counterValue // what was counted before the switch's program was set
	events map[uint32]struct{}          // ports whose events ReadBack has not followed
}

// missActions are the actions that are equivalent to a miss.
var missActions = map[controller.Table]string{
	controller.RouteV4: "discard()", controller.RouteV6: "discard()", controller.SourceRoute: "NoAction()",
	controller.LabelCarrier: "NoAction()", controller.UplinkOfPort: "NoAction()", controller.Notice: "NoAction()",
	controller.SourceGuard: "NoAction()", controller.ECNProfile: "NoAction()",
}

// NewMirror returns a mirror to a model with empty tables.
func NewMirror(m *Model) (*Mirror, error) {
	s, err := readSelector(m.pipeline)
	if err != nil {
		return nil, err
	}
	var w chipWrites
	w.mirrors()
	if err := m.write(w); err != nil {
		return nil, err
	}
	return &Mirror{model: m, selector: s, rows: map[string]*ternaryRows{}, exact: map[string]*entries{},
		groups: map[string]*ecmpGroup{}, trees: map[uint32]multicastTree{}, sessions: map[uint32]mirrorSession{}, down: map[uint32]bool{},
		events: map[uint32]struct{}{}}, nil
}

// Use makes the model copy a switch's tables from now on, and the switch read the model's counters.
func (m *Mirror) Use(sw *interp.Switch) error {
	m.sw = sw
	return m.countAll()
}

// Sync copies the changes of the tables to the model.
func (m *Mirror) Sync() error {
	if m.sw == nil {
		return nil
	}
	if err := m.syncDevice(); err != nil {
		return err
	}
	for _, t := range controller.Tables() {
		miss, ok := missActions[t]
		if !ok {
			continue
		}
		if err := m.syncTable(t.String(), miss); err != nil {
			return fmt.Errorf("%w (table %v)", err, t)
		}
	}
	if err := m.readUplinks(); err != nil {
		return err
	}
	if err := m.syncECMP(); err != nil {
		return err
	}
	return m.syncReplication()
}

// readUplinks reads which ports are uplinks.
func (m *Mirror) readUplinks() error {
	id, ok := m.sw.Program().TableByName(controller.UplinkOfPort.String())
	if !ok {
		return fmt.Errorf("tofino: the program has no table %v", controller.UplinkOfPort)
	}
	m.uplinks = map[uint32]int{}
	for _, e := range m.sw.Entries(id) {
		if len(e.Target.Call.Args) == 1 {
			m.uplinks[uint32(number(e.Match[0].Value))] = int(number(e.Target.Call.Args[0]))
		}
	}
	return nil
}

func (m *Mirror) syncDevice() error {
	id, ok := m.sw.Program().TableByName(controller.Device.String())
	if !ok {
		return fmt.Errorf("tofino: the program has no table %v", controller.Device)
	}
	target, ok := m.sw.Default(id)
	if !ok {
		return nil
	}
	action := m.actionText(target)
	if action == m.device {
		return nil
	}
	if _, err := m.model.Do(fmt.Sprintf("setdefault %v %s", controller.Device, action)); err != nil {
		return err
	}
	m.device = action
	return nil
}

func (m *Mirror) syncTable(name, miss string) error {
	id, ok := m.sw.Program().TableByName(name)
	if !ok {
		return fmt.Errorf("tofino: the program has no table %s", name)
	}
	info := m.sw.Program().Tables[id].Info
	if len(info.Key) == 1 && info.Key[0].Kind != program.Exact {
		return m.syncRows(id, info, miss)
	}
	t := m.exact[name]
	if t == nil {
		t = &entries{table: name, miss: miss}
		m.exact[name] = t
	}
	want := map[string]string{}
	for _, e := range m.sw.Entries(id) {
		var key []string
		for i, k := range info.Key {
			key = append(key, exactValue(k, e.Match[i]))
		}
		want[strings.Join(key, " ")] = m.actionText(e.Target)
	}
	return t.write(m.model, want)
}

func (m *Mirror) syncRows(id program.TableID, info program.TableInfo, miss string) error {
	t := m.rows[info.Name]
	if t == nil {
		any := ternary(info.Key[0], program.FieldMatch{Any: true})
		t = &ternaryRows{table: info.Name, any: ternaryRow{any, miss}}
		m.rows[info.Name] = t
	}
	type ranked struct {
		rank int
		ternaryRow
	}
	var all []ranked
	for _, e := range m.sw.Entries(id) {
		rank := int(e.Priority)
		if info.Key[0].Kind == program.LPM {
			rank = e.Match[0].PrefixLen
		}
		all = append(all, ranked{rank, ternaryRow{ternary(info.Key[0], e.Match[0]), m.actionText(e.Target)}})
	}
	slices.SortFunc(all, func(a, b ranked) int {
		if a.rank != b.rank {
			return a.rank - b.rank
		}
		return strings.Compare(a.key, b.key)
	})
	want := make([]ternaryRow, len(all))
	for i, r := range all {
		want[i] = r.ternaryRow
	}
	if commands := t.write(want); len(commands) > 0 {
		if _, err := m.model.Do(commands...); err != nil {
			return err
		}
	}
	return nil
}

// actionText returns an entry's action in the syntax of the chip model's test harness.
func (m *Mirror) actionText(g interp.Target) string {
	info := m.sw.Program().Actions[g.Call.Action].Info
	var args []string
	for i, p := range info.Params {
		value := hexadecimal(g.Call.Args[i])
		if p.Name == intervalParameter && value != neverQuench {
			value = "0x1"
		}
		if p.Name != unusedParameter {
			args = append(args, p.Name+":"+value)
		}
	}
	return fmt.Sprintf("%s(%s)", info.Name, strings.Join(args, ", "))
}

// Inject passes a packet through the model from a port, and returns the packets that leave. Ports are numbered as in
// v1model.
func (m *Mirror) Inject(port uint32, data []byte) ([]Packet, error) {
	return m.InjectAll([]Packet{{port, data}})
}

// LastPort returns the highest ingress port.
func (*Mirror) LastPort() uint32 { return LastPort }

// Close ends the model.
func (m *Mirror) Close() error { return m.model.Close() }

// Forward passes packets through the model, as [Mirror.InjectAll] does, for a switch process.
func (m *Mirror) Forward(packets []interp.Input) ([]interp.Output, error) {
	in := make([]Packet, len(packets))
	for i, p := range packets {
		in[i] = Packet{p.Port, p.Data}
	}
	left, err := m.InjectAll(in)
	out := make([]interp.Output, len(left))
	for i, p := range left {
		out[i] = interp.Output{Port: p.Port, Data: p.Data, Length: len(p.Data)}
	}
	return out, err
}

// InjectAll is [Mirror.Inject] for several packets, one after the other.
func (m *Mirror) InjectAll(packets []Packet) ([]Packet, error) {
	var commands []string
	for _, p := range packets {
		switch {
		case p.Port == p4src.CPUPort:
			p.Port = cpuPort
		case p.Port == p4src.PortEventPort:
			m.notePortEvent(p.Data)
			p = Packet{cpuPort, append([]byte{p4src.PortEventPort >> 8, p4src.PortEventPort & 0xff}, p.Data...)}
		case p.Port > LastPort:
			return nil, fmt.Errorf("tofino: port %d; the model's ports are 0 to %d", p.Port, LastPort)
		}
		commands = append(commands, fmt.Sprintf("packet %d %x", p.Port, p.Data))
	}
	r, err := m.model.Do(commands...)
	for i := range r.Packets {
		if r.Packets[i].Port == cpuPort {
			r.Packets[i].Port = p4src.CPUPort
		}
	}
	return r.Packets, err
}

// notePortEvent records a port-event packet's content, since a group that is written later begins with its live
// members.
func (m *Mirror) notePortEvent(data []byte) {
	if len(data) < p4src.PortEventBytes {
		return
	}
	if event := data[p4src.PortEventBytes-8:]; event[0] == 1 {
		port := uint32(event[2])<<8 | uint32(event[3])
		m.down[port] = event[1] == 0
		m.events[port] = struct{}{}
	}
}
