package tofino

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/p4src"
	"github.com/ethereal-fabric/ethereal/testbed/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/testbed/p4switch/program"
)

// cpuPort is the chip's port to the CPU: CPU_PORT in p4src/tna/tna_headers.p4.
const cpuPort = 320

// LastPort is the last port of the chip's first pipe that has a cable.
const LastPort = 63

// Mirror has a model's tables be as a switch's are. It is not safe for concurrent use.
type Mirror struct {
	model  *Model
	sw     *interp.Switch
	device string // what its only entry does in the model
	rows   map[string]*rows
	exact  map[string]*entries
}

// misses are the actions that do what a miss does.
var misses = map[controller.Table]string{
	controller.RouteV4: "discard()", controller.RouteV6: "discard()", controller.SourceRoute: "NoAction()",
	controller.LabelCarrier: "NoAction()", controller.UplinkOfPort: "NoAction()", controller.Notice: "NoAction()",
	controller.ECNProfile: "NoAction()",
}

// NewMirror returns a mirror whose model has empty tables.
func NewMirror(m *Model) *Mirror {
	return &Mirror{model: m, rows: map[string]*rows{}, exact: map[string]*entries{}}
}

// Use has the model follow a switch's tables from now on.
func (m *Mirror) Use(sw *interp.Switch) { m.sw = sw }

// Sync writes what has changed.
func (m *Mirror) Sync() error {
	if m.sw == nil {
		return nil
	}
	if err := m.syncDevice(); err != nil {
		return err
	}
	for _, t := range controller.Tables() {
		miss, ok := misses[t]
		if !ok {
			continue
		}
		if err := m.syncTable(t.String(), miss); err != nil {
			return fmt.Errorf("%w (table %v)", err, t)
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
	action := m.action(target)
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
	info := m.sw.Program().TableInfos()[id]
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
			key = append(key, exactly(k, e.Match[i]))
		}
		want[strings.Join(key, " ")] = m.action(e.Target)
	}
	return t.write(m.model, want)
}

func (m *Mirror) syncRows(id program.TableID, info program.TableInfo, miss string) error {
	t := m.rows[info.Name]
	if t == nil {
		any := ternary(info.Key[0], program.FieldMatch{Any: true})
		t = &rows{table: info.Name, any: row{any, miss}}
		m.rows[info.Name] = t
	}
	type ranked struct {
		rank int
		row
	}
	var all []ranked
	for _, e := range m.sw.Entries(id) {
		rank := int(e.Priority)
		if info.Key[0].Kind == program.LPM {
			rank = e.Match[0].PrefixLen
		}
		all = append(all, ranked{rank, row{ternary(info.Key[0], e.Match[0]), m.action(e.Target)}})
	}
	slices.SortFunc(all, func(a, b ranked) int {
		if a.rank != b.rank {
			return a.rank - b.rank
		}
		return strings.Compare(a.key, b.key)
	})
	want := make([]row, len(all))
	for i, r := range all {
		want[i] = r.row
	}
	if commands := t.write(want); len(commands) > 0 {
		if _, err := m.model.Do(commands...); err != nil {
			return err
		}
	}
	return nil
}

// action returns what an entry does, in the harness's words.
func (m *Mirror) action(g interp.Target) string {
	info := m.sw.Program().ActionInfos()[g.Call.Action]
	args := make([]string, len(info.Params))
	for i, p := range info.Params {
		args[i] = p.Name + ":" + hexadecimal(g.Call.Args[i])
	}
	return fmt.Sprintf("%s(%s)", info.Name, strings.Join(args, ", "))
}

// Inject has a packet come in by a port of v1model's numbers, and returns what leaves, by such numbers.
func (m *Mirror) Inject(port uint32, data []byte) ([]Packet, error) {
	switch {
	case port == p4src.CPUPort:
		port = cpuPort
	case port == p4src.PortEventPort:
		port, data = cpuPort, append([]byte{p4src.PortEventPort >> 8, p4src.PortEventPort & 0xff}, data...)
	case port > LastPort:
		return nil, fmt.Errorf("tofino: port %d; the model's ports are 0 to %d", port, LastPort)
	}
	out, err := m.model.Inject(port, data)
	for i := range out {
		if out[i].Port == cpuPort {
			out[i].Port = p4src.CPUPort
		}
	}
	return out, err
}
