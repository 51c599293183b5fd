package portstate

import (
	"cmp"
	"fmt"
	"slices"
)

// Config describes one port of the switch.
type Config struct {
	Name    string  // interface name in gNMI, such as "Ethernet1"
	Number  uint32  // port number in the P4 program; openconfig-p4rt's id
	IfIndex uint32  // ifindex in gNMI; 0: the position in the list, from 1
	Down    bool    // the link is down at the start
	Disable bool    // config/enabled is false at the start
	Speed   string  // openconfig's name, such as SPEED_400GB, at the start; empty: unknown
	MAC     [6]byte // MAC address of the interface; 0: none
	Autoneg *bool   // whether the interface negotiates its speed; nil: unknown
	MTU     uint16  // of the interface, at the start; 0: unknown
}

// Counters are a port's traffic counters.
type Counters struct {
	InOctets, OutOctets     uint64
	InPkts, OutPkts         uint64
	InDiscards, OutDiscards uint64
	InErrors, OutErrors     uint64
	InFCSErrors             uint64 // part of InErrors, as far as known

	// Packets with a multicast or broadcast destination; see [Ports].Casts.
	InMulticast, InBroadcast, OutMulticast, OutBroadcast uint64
}

// State is the state of a port.
type State struct {
	Name       string
	Number     uint32
	IfIndex    uint32
	Enabled    bool   // admin state, as configured
	Link       bool   // the link is up, as SetOper reported
	Oper       bool   // oper status: Enabled and Link
	Speed      string // openconfig's name, such as SPEED_400GB; empty: unknown
	LastChange int64  // ns since the Unix epoch: when Oper last changed
	Changes    uint64 // number of changes of Oper since the start
	MTU        uint16 // MTU of the interface in bytes; 0: unknown
	MAC        [6]byte
	Autoneg    *bool // whether the interface negotiates its speed; nil: unknown

	Viable bool   // action-profile groups may send to the port, as configured; see [Ports].Watched
	Health string // GOOD, BAD or UNKNOWN, as configured by a controller
}

// Usable reports whether action-profile groups may send to the port: it is up and viable.
func (s *State) Usable() bool { return s.Oper && s.Viable }

// Event is a change of one port. At least one of the flags is set.
type Event struct {
	State         State
	AdminChanged  bool
	OperChanged   bool
	SpeedChanged  bool
	ConfigChanged bool  // Viable or Health changed
	Interface     bool  // MTU, IfIndex or MAC changed
	Now           int64 // ns since the Unix epoch
}

// Ports holds the state of a switch's ports and notifies observers of changes. It is not safe for concurrent use:
// the lock of the cores that use it protects it.
type Ports struct {
	ports    []*State
	byName   map[string]*State
	byNumber map[uint32]*State
	watchers []func(Event)

	// Counters reads a port's counters. Nil: all zero.
	Counters func(number uint32) Counters
	// Casts says that Counters has separate counts of multicast and broadcast packets.
	Casts bool
	// Watched says that action-profile groups do not use ports that are not viable. Otherwise Viable cannot be
	// configured.
	Watched bool
	// OnAdmin carries out a change of the admin state, such as setting the interface down. An error refuses the change.
	// Nil: nothing to carry out.
	OnAdmin func(number uint32, enabled bool) error
}

// New makes the ports, ordered by number. Names and numbers must be
// unique.
func New(configs []Config) (*Ports, error) {
	p := &Ports{byName: map[string]*State{}, byNumber: map[uint32]*State{}}
	sorted := slices.Clone(configs)
	slices.SortStableFunc(sorted, func(a, b Config) int { return cmp.Compare(a.Number, b.Number) })
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
		s := &State{Name: c.Name, Number: c.Number, IfIndex: c.IfIndex, Enabled: !c.Disable, Link: !c.Down, Speed: c.Speed, MAC: c.MAC,
			Autoneg: c.Autoneg, MTU: c.MTU, Viable: true, Health: "GOOD"}
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
func (p *Ports) Watch(f func(Event)) { p.watchers = append(p.watchers, f) }

// All returns the state of every port, by number.
func (p *Ports) All() []State {
	out := make([]State, len(p.ports))
	for i, s := range p.ports {
		out[i] = *s
	}
	return out
}

// States returns the live states of all ports, by number, for reading only.
func (p *Ports) States() []*State { return p.ports }

// Port returns the state of a port.
func (p *Ports) Port(number uint32) (State, bool) {
	s, ok := p.byNumber[number]
	if !ok {
		return State{}, false
	}
	return *s, true
}

// stateOf returns the modifiable state of a port.
func (p *Ports) stateOf(number uint32) (*State, error) {
	s, ok := p.byNumber[number]
	if !ok {
		return nil, fmt.Errorf("switch: no port %d", number)
	}
	return s, nil
}

// SetOper reports that a port's link came up or went down, at now (ns since the Unix epoch). While the port is
// enabled, its oper status is the link's. A known state has no effect.
func (p *Ports) SetOper(number uint32, up bool, now int64) error {
	s, err := p.stateOf(number)
	if err != nil {
		return err
	}
	if s.Link == up {
		return nil
	}
	s.Link = up
	p.setChanged(s, false, now)
	return nil
}

// SetSpeed reports a port's new speed, by openconfig's name, at now (ns since the Unix epoch). A known speed has no
// effect.
func (p *Ports) SetSpeed(number uint32, speed string, now int64) error {
	s, err := p.stateOf(number)
	if err != nil {
		return err
	}
	if s.Speed == speed {
		return nil
	}
	s.Speed = speed
	p.notify(Event{State: *s, SpeedChanged: true, Now: now})
	return nil
}

// SetMTU reports the new MTU of a port's interface, at now (ns since the Unix epoch). A known MTU has no effect.
func (p *Ports) SetMTU(number uint32, mtu uint16, now int64) error {
	s, err := p.stateOf(number)
	if err != nil {
		return err
	}
	if s.MTU == mtu {
		return nil
	}
	s.MTU = mtu
	p.notify(Event{State: *s, Interface: true, Now: now})
	return nil
}

// SetInterface reports that another network interface serves the port from now (ns since the Unix epoch) on. A known
// one has no effect.
func (p *Ports) SetInterface(number, index uint32, mac [6]byte, now int64) error {
	s, err := p.stateOf(number)
	if err != nil {
		return err
	}
	if s.IfIndex == index && s.MAC == mac {
		return nil
	}
	s.IfIndex, s.MAC = index, mac
	p.notify(Event{State: *s, Interface: true, Now: now})
	return nil
}

// Configure sets a port's Viable and Health, at now (ns since the Unix epoch).
func (p *Ports) Configure(number uint32, viable bool, health string, now int64) error {
	s, err := p.stateOf(number)
	if err != nil {
		return err
	}
	if s.Viable == viable && s.Health == health {
		return nil
	}
	s.Viable, s.Health = viable, health
	p.notify(Event{State: *s, ConfigChanged: true, Now: now})
	return nil
}

// SetAdmin enables or disables a port, at now (ns since the Unix epoch). A disabled port is down at once.
func (p *Ports) SetAdmin(number uint32, enabled bool, now int64) error {
	s, err := p.stateOf(number)
	if err != nil {
		return err
	}
	if s.Enabled == enabled {
		return nil
	}
	if p.OnAdmin != nil {
		if err := p.OnAdmin(number, enabled); err != nil {
			return fmt.Errorf("switch: port %s: %w", s.Name, err)
		}
	}
	if s.Enabled == enabled { // OnAdmin has called NoteAdmin
		return nil
	}
	s.Enabled = enabled
	p.setChanged(s, true, now)
	return nil
}

// NoteAdmin reports that another program has enabled or disabled a port, at now (ns since the Unix epoch). OnAdmin
// is not called. A known state has no effect.
func (p *Ports) NoteAdmin(number uint32, enabled bool, now int64) error {
	s, err := p.stateOf(number)
	if err != nil {
		return err
	}
	if s.Enabled != enabled {
		s.Enabled = enabled
		p.setChanged(s, true, now)
	}
	return nil
}

func (p *Ports) setChanged(s *State, admin bool, now int64) {
	oper := s.Enabled && s.Link
	ev := Event{AdminChanged: admin, OperChanged: oper != s.Oper, Now: now}
	if ev.OperChanged {
		s.Oper, s.LastChange = oper, now
		s.Changes++
	}
	if !ev.AdminChanged && !ev.OperChanged {
		return
	}
	ev.State = *s
	p.notify(ev)
}

func (p *Ports) notify(ev Event) {
	for _, f := range p.watchers {
		f(ev)
	}
}

// Usable reports whether a port exists, its oper status is up and it is viable.
func (p *Ports) Usable(number uint32) bool {
	s, ok := p.byNumber[number]
	return ok && s.Usable()
}

// Count returns a port's traffic counters.
func (p *Ports) Count(number uint32) Counters {
	if p.Counters == nil {
		return Counters{}
	}
	return p.Counters(number)
}
