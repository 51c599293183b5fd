package tofino

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"

	"github.com/ethereal-fabric/ethereal/controller/p4rt"
	"github.com/ethereal-fabric/ethereal/p4src"
	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// Bytes of a packet that the chip counts and v1model does not.
const (
	checksumBytes = 4 // the frame check sequence
	bridgeBytes   = 1 // in egress: bridge_t of the program
)

// portDown is the register of ports that are down.
const portDown = "port_down"

// The harness's lines about a cell of a counter and of a register. A register has such a line once it was used.
var (
	counterLine  = regexp.MustCompile(`^counter [a-z_]+\(virtual [0-9]+\): bytes=([0-9]+) packets=([0-9]+)$`)
	registerLine = regexp.MustCompile(`^register [a-z_]+\(physical [0-9]+\): lo=([0-9]+)$`)
)

// counterCell is a cell of an indirect counter.
type counterCell struct {
	counter program.CounterID
	index   int
}

// counterValue is the content of a counter cell: packets and bytes.
type counterValue struct{ packets, bytes uint64 }

// Counted returns the packets and bytes that the chip's model has counted in a cell of an indirect counter since
// [Mirror.Use]. Bytes are counted as v1model does. See [interp.Counting].
func (m *Mirror) Counted(id program.CounterID, index int) (packets, bytes uint64, err error) {
	c, err := m.count(id, index)
	before := m.before[counterCell{id, index}]
	return c.packets - before.packets, c.bytes - before.bytes, err
}

func (m *Mirror) count(id program.CounterID, index int) (c counterValue, err error) {
	name, more := m.sw.Program().Counters[id].Name, uint64(checksumBytes)
	if name == p4rt.CounterData || name == p4rt.CounterControl {
		more += bridgeBytes
		switch {
		case index == p4src.CPUPort:
			index = cpuPort
		case index > LastPort:
			return counterValue{}, nil
		}
	}
	r, err := m.model.Do(fmt.Sprintf("check_counter %s(%d)", name, index))
	if err != nil {
		return counterValue{}, err
	}
	for _, line := range r.Text {
		if f := counterLine.FindStringSubmatch(line); f != nil {
			if c.bytes, err = strconv.ParseUint(f[1], 10, 64); err == nil {
				c.packets, err = strconv.ParseUint(f[2], 10, 64)
			}
			c.bytes -= c.packets * more
			return c, err
		}
	}
	return counterValue{}, fmt.Errorf("tofino: model: no answer about cell %d of counter %s", index, name)
}

// countAll saves the chip's counts, so that a new program's counters begin at 0.
func (m *Mirror) countAll() error {
	m.before = map[counterCell]counterValue{}
	for id, info := range m.sw.Program().Counters {
		for index := range info.Size {
			c, err := m.count(program.CounterID(id), index)
			if err != nil {
				return err
			}
			if c != (counterValue{}) {
				m.before[counterCell{program.CounterID(id), index}] = c
			}
		}
	}
	return nil
}

// CountedAt returns 0, since the chip counts the packets of table source_route by label, not by entry. See
// [interp.Counting].
func (*Mirror) CountedAt(program.TableID, int) (packets, bytes uint64, err error) { return 0, 0, nil }

// ReadBack copies the chip's register port_down, which port-event packets change, to the switch. Other registers of the
// chip do not correspond to v1model's.
func (m *Mirror) ReadBack() error {
	if m.sw == nil || len(m.events) == 0 {
		return nil
	}
	id, ok := m.sw.Program().RegisterByName(portDown)
	if !ok {
		return fmt.Errorf("tofino: the program has no register %s", portDown)
	}
	for port := range m.events {
		r, err := m.model.Do(fmt.Sprintf("check_register %s(%d)", portDown, port))
		if err != nil {
			return err
		}
		value := uint64(0)
		for _, line := range r.Text {
			if f := registerLine.FindStringSubmatch(line); f != nil {
				if value, err = strconv.ParseUint(f[1], 10, 64); err != nil {
					return err
				}
			}
		}
		if err := m.sw.SetRegister(id, int(port), binary.BigEndian.AppendUint64(nil, value)); err != nil {
			return err
		}
	}
	clear(m.events)
	return nil
}
