package targets

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// MaxDevicePort is the largest port number of the programs: 9 bits, minus the drop port and the reserved ports.
const MaxDevicePort = 507

// identityPrefix begins the names of interfaces without a map.
const identityPrefix = "Ethernet"

// Port is a port's name and number on a switch.
type Port struct {
	Name  string `yaml:"name"` // name of its interface in gNMI, such as Ethernet1 or 1/0
	ID    uint32 `yaml:"id"`   // number in the data plane; on Tofino the device port
	Lanes int    `yaml:"lanes"`
}

// PortMap translates a fabric's port numbers to a switch's, and back. The zero PortMap, and a nil one, is the
// identity with the names Ethernet1, Ethernet2, ...
type PortMap struct {
	ports  []Port // of fabric port 1, 2, ...
	byID   map[uint32]fabric.PortNo
	byName map[string]fabric.PortNo
}

// NewPortMap returns the map of a switch whose fabric ports 1, 2, ... are ports. It returns an error for
// duplicates, and for numbers out of range.
func NewPortMap(ports []Port) (*PortMap, error) {
	m := &PortMap{ports: ports, byID: map[uint32]fabric.PortNo{}, byName: map[string]fabric.PortNo{}}
	for i, p := range ports {
		no := fabric.PortNo(i + 1)
		switch {
		case p.Name == "":
			return nil, fmt.Errorf("%w: port %d: name: missing; it is the interface's name over gNMI", ErrProfile, no)
		case p.ID > MaxDevicePort:
			return nil, fmt.Errorf("%w: port %d: id: %d is above %d", ErrProfile, no, p.ID, MaxDevicePort)
		case p.Lanes < 0 || p.Lanes > 8:
			return nil, fmt.Errorf("%w: port %d: lanes: %d; a port has 1 to 8", ErrProfile, no, p.Lanes)
		}
		if other, ok := m.byID[p.ID]; ok {
			return nil, fmt.Errorf("%w: port %d: id: %d is port %d's", ErrProfile, no, p.ID, other)
		}
		if other, ok := m.byName[p.Name]; ok {
			return nil, fmt.Errorf("%w: port %d: name: %s is port %d's", ErrProfile, no, p.Name, other)
		}
		m.byID[p.ID], m.byName[p.Name] = no, no
	}
	return m, nil
}

// Len returns the number of mapped ports; 0 for the identity.
func (m *PortMap) Len() int {
	if m == nil {
		return 0
	}
	return len(m.ports)
}

// ID returns the data plane's number of a port. ok is false for a port that is not mapped.
func (m *PortMap) ID(p fabric.PortNo) (_ uint32, ok bool) {
	if m.Len() == 0 {
		return uint32(p), true
	}
	if p < 1 || int(p) > len(m.ports) {
		return 0, false
	}
	return m.ports[p-1].ID, true
}

// Port returns the port with a data plane's number.
func (m *PortMap) Port(id uint32) (_ fabric.PortNo, ok bool) {
	if m.Len() == 0 {
		return fabric.PortNo(id), id <= MaxDevicePort
	}
	p, ok := m.byID[id]
	return p, ok
}

// ByName returns the port of an interface. ok is false for one that is no port.
func (m *PortMap) ByName(name string) (_ fabric.PortNo, ok bool) {
	if m.Len() == 0 {
		digits, ok := strings.CutPrefix(name, identityPrefix)
		if !ok || digits == "" || digits[0] < '1' || digits[0] > '9' {
			return 0, false
		}
		n, err := strconv.ParseUint(digits, 10, 16)
		return fabric.PortNo(n), err == nil
	}
	p, ok := m.byName[name]
	return p, ok
}

// Name returns the name of a port's interface; empty for a port not mapped.
func (m *PortMap) Name(p fabric.PortNo) string {
	if m.Len() == 0 {
		return identityPrefix + strconv.Itoa(int(p))
	}
	if p < 1 || int(p) > len(m.ports) {
		return ""
	}
	return m.ports[p-1].Name
}
