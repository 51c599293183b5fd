package containerlab

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Ports at which a machine publishes its containers': the controller's for agents and for its status on the first
// machine, and those of switches and agents, to which the node's device id is added.
const (
	agentsPort  = 9562
	adminPort   = 9560
	switchPorts = 20_000
	agentPorts  = 30_000
)

// firstVNI is the number of the first tunnel; that of a link has its id added.
const firstVNI = 4096

// placement is a fabric whose nodes are on machines.
type placement struct {
	*fabric.Fabric
	addresses []netip.Addr // of the machines, as they reach each other
	at        []int        // the machine of each node
}

// newPlacement assigns a fabric's nodes to the machines with these addresses.
func newPlacement(f *fabric.Fabric, addresses []netip.Addr) (*placement, error) {
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
	at, err := machineOf(f, len(addresses))
	return &placement{f, addresses, at}, err
}

// machineOf returns the machine of each node. Pods, or ToRs with their hosts where there are two tiers, go to machines
// in order, as evenly as they divide. A core or spine goes where most of its links end, among equals to the machine
// with fewest of them.
func machineOf(f *fabric.Fabric, machines int) ([]int, error) {
	whole, what := f.ToRs(), "ToRs"
	if f.ThreeTier() {
		whole, what = f.Spec().Pods, "pods"
	}
	if machines < 1 || machines > whole {
		return nil, fmt.Errorf("%d machines for a fabric of %d %s, which stay whole; write 1 to %d", machines, whole, what, whole)
	}
	at := make([]int, f.Nodes())
	for i := range f.ToRs() {
		tor := f.ToRID(i)
		at[tor] = i / (f.ToRs() / whole) * machines / whole
		first, count := f.HostsOf(tor)
		for h := range count {
			at[int(first)+h] = at[tor]
		}
	}
	top := make([]int, machines) // cores or spines of each machine
	most := func(id fabric.NodeID) (best int) {
		links := make([]int, machines)
		for p := 1; p <= f.Node(id).Ports(); p++ {
			if l, ok := f.LinkAt(id, fabric.PortNo(p)); ok {
				links[at[f.Link(l).Peer(id).Node]]++
			}
		}
		for m := range machines {
			if links[m] > links[best] || links[m] == links[best] && top[m] < top[best] {
				best = m
			}
		}
		top[best]++
		return best
	}
	for i := range f.Aggs() {
		if f.ThreeTier() {
			at[f.AggID(i)] = i / f.Spec().AggsPerPod * machines / whole
		} else {
			at[f.AggID(i)] = most(f.AggID(i))
		}
	}
	for i := range f.Cores() {
		at[f.CoreID(i)] = most(f.CoreID(i))
	}
	return at, nil
}

// crossMachineLinks returns the links whose ends are on two machines.
func (p *placement) crossMachineLinks() (out []fabric.LinkID) {
	for i := range p.Links() {
		if l := p.Link(fabric.LinkID(i)); p.at[l.A.Node] != p.at[l.B.Node] {
			out = append(out, l.ID)
		}
	}
	return out
}

// isHost reports whether a node is a host.
func (p *placement) isHost(id fabric.NodeID) bool { return int(id) < p.Hosts() }

// port returns the port of its machine at which a node is reached: a switch's P4Runtime, an agent's status.
func (p *placement) port(id fabric.NodeID) int {
	if p.isHost(id) {
		return agentPorts + int(id) + 1
	}
	return switchPorts + int(id) + 1
}

// nodeAddress returns the address of a node.
func (p *placement) nodeAddress(id fabric.NodeID) string {
	return net.JoinHostPort(p.addresses[p.at[id]].String(), strconv.Itoa(p.port(id)))
}

// controllerTarget is how the controller reaches a switch.
type controllerTarget struct {
	P4Runtime string `yaml:"p4runtime"`
	DeviceID  int    `yaml:"device_id"`
}

// targets are the switches and hosts of the controller's file.
func (p *placement) targets() map[string]any {
	switches, hosts := map[string]controllerTarget{}, map[string]map[string]string{}
	for i := range p.Nodes() {
		id := fabric.NodeID(i)
		if name := p.Name(id); p.isHost(id) {
			hosts[name] = map[string]string{"admin": p.nodeAddress(id)}
		} else {
			switches[name] = controllerTarget{p.nodeAddress(id), i + 1}
		}
	}
	return map[string]any{"switches": switches, "hosts": hosts}
}

// certificateHolders are the holders of certificates, as scripts/lab-ca takes them.
func (p *placement) certificateHolders() []string {
	out := []string{fmt.Sprintf("controller@controller,%v", p.addresses[0])}
	for i := range p.Nodes() {
		id, role := fabric.NodeID(i), "switch"
		if p.isHost(id) {
			role = "host"
		}
		out = append(out, fmt.Sprintf("%s@%s,%v", role, p.Name(id), p.addresses[p.at[i]]))
	}
	return out
}
