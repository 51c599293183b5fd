package server

import (
	"cmp"
	"fmt"
	"slices"
)

// PortConfig describes one port of the switch.
type PortConfig struct {
	Name    string // interface name towards gNMI, such as "Ethernet1"
	Number  uint32 // port number in the P4 program, openconfig-p4rt's id
	IfIndex uint32 // 0: as the position, from 1
	Down    bool   // the link is down at the start
	Disable bool   // config/enabled is false at the start
}

// Counters are a port's traffic counters.
type Counters struct {
	InOctets, OutOctets     uint64
	InPkts, OutPkts         uint64
	InDiscards, OutDiscards uint64
	InErrors, OutErrors     uint64
}

// PortState is what is known of a port.
type PortState struct {
	Name       string
	Number     uint32
	IfIndex    uint32
	Enabled    bool  // admin state, as configured
	Link       bool  // what SetOper said
	Oper       bool  // Enabled and Link
	LastChange int64 // ns since the Unix epoch: when Oper last changed
}

// PortEvent is a change of one port. At least one of the flags is set.
type PortEvent struct {
	State        PortState
	AdminChanged bool
	OperChanged  bool
	Now          int64 // ns since the Unix epoch
}

// Ports holds the state of a switch's ports and tells observers of changes.
// It is not safe for concurrent use: it lives under the same lock as the
// cores that it is given to.
type Ports struct {
	ports    []*PortState
	byName   map[string]*PortState
	byNumber map[uint32]*PortState
	watchers []func(PortEvent)

	// Counters reads a port's counters. Nil: all zero.
	Counters func(number uint32) Counters
	// OnAdmin carries out a change of the admin state, such as taking the
	// interface down. The error refuses the change. Nil: nothing to do.
	OnAdmin func(number uint32, enabled bool) error
}

// NewPorts makes the ports, ordered by number. Names and numbers must be
// unique.
func NewPorts(configs []PortConfig) (*Ports, error) {
	p := &Ports{byName: map[string]*PortState{}, byNumber: map[uint32]*PortState{}}
	sorted := slices.Clone(configs)
	slices.SortStableFunc(sorted, func(a, b PortConfig) int { return cmp.Compare(a.Number, b.Number) })
	for i, c := range sorted {
		if c.Name == "" {
			return nil, fmt.Errorf("switch: port %d has no name", c.Number)
		}
		if _, dup := p.byName[c.Name]; dup {
			return nil, fmt.Errorf("switch: two ports are named %q", c.Name)
		}
		if _, dup := p.byNumber[c.Number]; dup {
			return nil, fmt.Errorf("switch: two ports have the number %d", c.Number)
		}
		s := &PortState{Name: c.Name, Number: c.Number, IfIndex: c.IfIndex, Enabled: !c.Disable, Link: !c.Down}
		if s.IfIndex == 0 {
			s.IfIndex = uint32(i + 1)
		}
		s.Oper = s.Enabled && s.Link
		p.ports = append(p.ports, s)
		p.byName[c.Name], p.byNumber[c.Number] = s, s
	}
	return p, nil
}

// Watch calls f on every change, in the order in which watchers were added.
func (p *Ports) Watch(f func(PortEvent)) { p.watchers = append(p.watchers, f) }

// All returns the state of every port, by number.
func (p *Ports) All() []PortState {
	out := make([]PortState, len(p.ports))
	for i, s := range p.ports {
		out[i] = *s
	}
	return out
}

// Port returns the state of a port.
func (p *Ports) Port(number uint32) (PortState, bool) {
	s, ok := p.byNumber[number]
	if !ok {
		return PortState{}, false
	}
	return *s, true
}

// SetOper says that a port's link came up or went down, at now (ns since the
// Unix epoch). The port's oper status is the link's, as long as the port is
// enabled. Saying what is known already does nothing.
func (p *Ports) SetOper(number uint32, up bool, now int64) error {
	s, ok := p.byNumber[number]
	if !ok {
		return fmt.Errorf("switch: no port %d", number)
	}
	if s.Link == up {
		return nil
	}
	s.Link = up
	p.changed(s, false, now)
	return nil
}

// SetAdmin enables or disables a port, at now (ns since the Unix epoch). A
// disabled port is down at once.
func (p *Ports) SetAdmin(number uint32, enabled bool, now int64) error {
	s, ok := p.byNumber[number]
	if !ok {
		return fmt.Errorf("switch: no port %d", number)
	}
	if s.Enabled == enabled {
		return nil
	}
	if p.OnAdmin != nil {
		if err := p.OnAdmin(number, enabled); err != nil {
			return fmt.Errorf("switch: port %s: %w", s.Name, err)
		}
	}
	if s.Enabled == enabled { // OnAdmin has noted it
		return nil
	}
	s.Enabled = enabled
	p.changed(s, true, now)
	return nil
}

// NoteAdmin says that somebody else has enabled or disabled a port, at now (ns
// since the Unix epoch). OnAdmin is not asked. Saying what is known already does
// nothing.
func (p *Ports) NoteAdmin(number uint32, enabled bool, now int64) error {
	s, ok := p.byNumber[number]
	if !ok {
		return fmt.Errorf("switch: no port %d", number)
	}
	if s.Enabled != enabled {
		s.Enabled = enabled
		p.changed(s, true, now)
	}
	return nil
}

func (p *Ports) changed(s *PortState, admin bool, now int64) {
	oper := s.Enabled && s.Link
	ev := PortEvent{AdminChanged: admin, OperChanged: oper != s.Oper, Now: now}
	if ev.OperChanged {
		s.Oper, s.LastChange = oper, now
	}
	if !ev.AdminChanged && !ev.OperChanged {
		return
	}
	ev.State = *s
	for _, f := range p.watchers {
		f(ev)
	}
}

// up reports whether a port is usable as a watch port.
func (p *Ports) up(number uint32) bool {
	s, ok := p.byNumber[number]
	return ok && s.Oper
}

func (p *Ports) counters(number uint32) Counters {
	if p.Counters == nil {
		return Counters{}
	}
	return p.Counters(number)
}
