package machines

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Placement is a fabric whose parts are on machines.
type Placement struct {
	Fabric    *fabric.Fabric
	Addresses []netip.Addr // of the machines, as they reach each other
	At        []int        // the machine of each node
}

// Ports at which machines serve: the controller's for agents and for its status on the first, and those of switches and
// agents, to which the node's device id is added.
const (
	AgentsPort  = 9562
	AdminPort   = 9560
	switchPorts = 20_000
	agentPorts  = 30_000
)

// firstVNI is the number of the first tunnel; that of a link has its id added.
const firstVNI = 4096

// Place puts a fabric on the machines of these addresses.
func Place(f *fabric.Fabric, addresses []netip.Addr) (*Placement, error) {
	seen := map[netip.Addr]bool{}
	for _, a := range addresses {
		if seen[a] || !a.IsValid() {
			return nil, fmt.Errorf("address %v is given twice; give each machine its own", a)
		}
		seen[a] = true
	}
	if f.Nodes() > agentPorts-switchPorts {
		return nil, fmt.Errorf("%d nodes; each takes a port, and there are %d", f.Nodes(), agentPorts-switchPorts)
	}
	at, err := Cut(f, len(addresses))
	return &Placement{f, addresses, at}, err
}

// IsHost reports whether a node is a host.
func (p *Placement) IsHost(id fabric.NodeID) bool { return int(id) < p.Fabric.Hosts() }

// Port returns the port of its machine at which a node is reached: a switch's P4Runtime, an agent's status.
func (p *Placement) Port(id fabric.NodeID) int {
	if p.IsHost(id) {
		return agentPorts + int(id) + 1
	}
	return switchPorts + int(id) + 1
}

// Reached returns the address of a node.
func (p *Placement) Reached(id fabric.NodeID) string {
	return net.JoinHostPort(p.Addresses[p.At[id]].String(), strconv.Itoa(p.Port(id)))
}

// Controller returns the address of one of the controller's ports.
func (p *Placement) Controller(port int) string {
	return net.JoinHostPort(p.Addresses[0].String(), strconv.Itoa(port))
}

// VNI returns the number of a link's tunnel.
func (p *Placement) VNI(id fabric.LinkID) int { return firstVNI + int(id) }

// Target is how the controller reaches a switch.
type Target struct {
	P4Runtime string `yaml:"p4runtime"`
	DeviceID  int    `yaml:"device_id"`
}

// Targets are the switches and hosts of the controller's file.
func (p *Placement) Targets() map[string]any {
	switches, hosts := map[string]Target{}, map[string]map[string]string{}
	for i := range p.Fabric.Nodes() {
		id := fabric.NodeID(i)
		if name := p.Fabric.Name(id); p.IsHost(id) {
			hosts[name] = map[string]string{"admin": p.Reached(id)}
		} else {
			switches[name] = Target{p.Reached(id), i + 1}
		}
	}
	return map[string]any{"switches": switches, "hosts": hosts}
}

// Holders are the holders of certificates, as scripts/lab-ca takes them.
func (p *Placement) Holders() []string {
	out := []string{fmt.Sprintf("controller@controller,%v", p.Addresses[0])}
	for i := range p.Fabric.Nodes() {
		id, role := fabric.NodeID(i), "switch"
		if p.IsHost(id) {
			role = "host"
		}
		out = append(out, fmt.Sprintf("%s@%s,%v", role, p.Fabric.Name(id), p.Addresses[p.At[i]]))
	}
	return out
}
