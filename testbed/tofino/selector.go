package tofino

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// Table ecmp picks among a group's live members: its entry points to a word of the selector's memory, a bit a member
// and their number, and to as many entries of the action profile. The harness has a command for that word, which it
// cannot carry out: p4c names the register of the live bits as it names the selector, and the harness keeps one table
// by a name.
const (
	selectorTable = "ecmp_groups"
	profileTable  = "ecmp_selector"

	wordMembers = 16 // places of a group here: its first bits, and its entries of the action profile
	wordCount   = 56 // bit of the number of members in the upper half: update_selector, table.cpp of the harness
)

// selectorMemory is where the selector's words are: context.json of the compiler.
type selectorMemory struct {
	Stage, Unit, Spare int
}

// readSelector finds the selector.
func readSelector(pipeline string) (s selectorMemory, err error) {
	name := filepath.Join(pipeline, "context.json")
	text, err := os.ReadFile(name)
	if err != nil {
		return s, fmt.Errorf("tofino: pipeline: %w", err)
	}
	var context struct {
		Tables []struct {
			Name   string `json:"name"`
			Type   string `json:"table_type"`
			Stages []struct {
				Stage  int `json:"stage_number"`
				Memory struct {
					Units []struct {
						Units []int `json:"memory_units"`
					} `json:"memory_units_and_vpns"`
					Spare int `json:"spare_bank_memory_unit"`
				} `json:"memory_resource_allocation"`
			} `json:"stage_tables"`
		} `json:"tables"`
	}
	if err := json.Unmarshal(text, &context); err != nil {
		return s, fmt.Errorf("tofino: %s: %w", name, err)
	}
	for _, t := range context.Tables {
		if t.Name == selectorTable && t.Type == "selection" && len(t.Stages) == 1 {
			if m := t.Stages[0].Memory; len(m.Units) == 1 && len(m.Units[0].Units) == 1 {
				return selectorMemory{t.Stages[0].Stage, m.Units[0].Units[0], m.Spare}, nil
			}
		}
	}
	return s, fmt.Errorf("tofino: %s has no selector %s of one memory in one stage", name, selectorTable)
}

// selectorWord writes a group's live members. The memory has a spare, and a map of which of the two has a word: all
// words that are written here are in the first, which the map says by the complement of its number, 0.
func (w *chipWrites) selectorWord(s selectorMemory, place int, live uint64) {
	count := uint64(0)
	for b := live; b != 0; b &= b - 1 {
		count++
	}
	w.memory(unitAddress(s.Stage, memorySRAM, s.Unit, place), live, count<<wordCount)
	w.memory(unitAddress(s.Stage, memoryMap, s.Unit, place), 0x3F, 0)
	w.memory(unitAddress(s.Stage, memoryMap, s.Spare, place), 0, 0)
}

// ecmpGroup is a group of table ecmp in the chip.
type ecmpGroup struct {
	place int
	ports [wordMembers]uint32 // by bit
	has   uint64              // bits
	live  uint64
}

// members places ports at the bits of the group: a port's first copy at the port's index among the uplinks, which is
// the bit that a port event clears. Further copies, a weight's, and ports without an index are at what bits are left.
func (m *Mirror) members(ports []uint32) (g ecmpGroup, err error) {
	further := []uint32{}
	for _, port := range ports {
		at, ok := m.uplinks[port]
		if !ok || at >= wordMembers || g.has>>at&1 == 1 {
			further = append(further, port)
		} else {
			g.ports[at], g.has = port, g.has|1<<at
		}
	}
	at := 0
	for _, port := range further {
		for at < wordMembers && (g.has>>at&1 == 1 || slices.Contains(m.uplinkIndices(), at)) {
			at++
		}
		if at == wordMembers {
			return g, fmt.Errorf("tofino: a group of %d members and weights; %d fit", len(ports), wordMembers)
		}
		g.ports[at], g.has = port, g.has|1<<at
	}
	for at, port := range g.ports {
		if g.has>>at&1 == 1 && !m.down[port] {
			g.live |= 1 << at
		}
	}
	return g, nil
}

func (m *Mirror) uplinkIndices() (all []int) {
	for _, at := range m.uplinks {
		all = append(all, at)
	}
	return all
}

// syncECMP writes table ecmp and what it selects from.
func (m *Mirror) syncECMP() error {
	p := m.sw.Program()
	id, ok := p.TableByName(controller.ECMP.String())
	if !ok {
		return fmt.Errorf("tofino: the program has no table %v", controller.ECMP)
	}
	info := p.Tables[id].Info
	want := map[string]string{}
	for _, e := range m.sw.Entries(id) {
		ports, err := m.portsOf(e.Target, info.Profile)
		if err != nil {
			return err
		}
		key := exactValue(info.Key[0], e.Match[0])
		g, err := m.members(ports)
		if err != nil {
			return err
		}
		if old, ok := m.groups[key]; ok {
			g.place = old.place
		} else {
			g.place = m.freeIndex(key)
		}
		if err := m.writeGroup(m.groups[key], g); err != nil {
			return err
		}
		m.groups[key] = &g
		base := g.place * wordMembers
		want[key] = fmt.Sprintf("take_uplink(%d, port:%#x, meter_addr:%#x, meter_pfe:0x800000)", base, g.ports[0], g.place<<7)
	}
	for key := range m.groups {
		if _, ok := want[key]; !ok {
			delete(m.groups, key)
		}
	}
	t := m.exact[info.Name]
	if t == nil {
		t = &entries{table: info.Name, miss: "NoAction()"}
		m.exact[info.Name] = t
	}
	return t.write(m.model, want)
}

// freeIndex returns the place for a new group. Group 1, of all uplinks, has the first: a port event clears a bit there.
func (m *Mirror) freeIndex(key string) int {
	if strings.HasSuffix(key, ":"+firstGroup) {
		return 0
	}
	place := 1
	for again := true; again; {
		again = false
		for _, g := range m.groups {
			if g.place == place {
				place, again = place+1, true
			}
		}
	}
	return place
}

// firstGroup is the group of all uplinks, as a key has it.
const firstGroup = "0x1"

// writeGroup writes the changes of a group to the chip.
func (m *Mirror) writeGroup(old *ecmpGroup, g ecmpGroup) error {
	var commands []string
	for at, port := range g.ports {
		if g.has>>at&1 == 1 && (old == nil || old.ports[at] != port) {
			add := fmt.Sprintf("add %s %d take_uplink(port:%#x)", profileTable, g.place*wordMembers+at, port)
			commands = append(commands, add)
		}
	}
	if len(commands) > 0 {
		if _, err := m.model.Do(commands...); err != nil {
			return err
		}
	}
	if old != nil && old.live == g.live && old.has == g.has {
		return nil
	}
	var w chipWrites
	w.selectorWord(m.selector, g.place, g.live)
	return m.model.write(w)
}

// portsOf returns the ports of what an entry of ecmp selects from.
func (m *Mirror) portsOf(target interp.Target, profile program.ProfileID) (ports []uint32, err error) {
	members := []interp.MemberID{target.Member}
	if target.Kind == interp.ByGroup {
		if members, err = m.sw.Group(profile, target.Group); err != nil {
			return nil, err
		}
	}
	for _, id := range members {
		call, err := m.sw.Member(profile, id)
		if err != nil {
			return nil, err
		}
		if len(call.Args) == 1 {
			ports = append(ports, uint32(number(call.Args[0])))
		}
	}
	return ports, nil
}

// number returns a big-endian number of at most eight bytes.
func number(b []byte) (n uint64) {
	for _, x := range b {
		n = n<<8 | uint64(x)
	}
	return n
}
