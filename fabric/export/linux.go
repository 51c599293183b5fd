package export

import (
	"fmt"
	"io"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// firstTable is the routing table of label 0 on hosts; each label has its own table.
const firstTable = 1000

// Sysctl writes a node's kernel settings, for `sysctl -p`. The node's interfaces must exist already.
func (p *Plan) Sysctl(w io.Writer, id fabric.NodeID) error {
	var b strings.Builder
	set := func(name string, to int) { fmt.Fprintf(&b, "net.ipv6.conf.%s = %d\n", name, to) }
	set("all.forwarding", 1)
	set("all.seg6_enabled", 1)
	n := p.Fabric.Node(id)
	for port := fabric.PortNo(1); int(port) <= n.Ports(); port++ {
		set(Interface(port)+".seg6_enabled", 1)
	}
	if n.Tier != fabric.Host { // the hash over next hops includes ports
		b.WriteString("net.ipv6.fib_multipath_hash_policy = 1\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Linux writes the configuration of a Linux machine as a node of the fabric, for `ip -6 -batch`.
func (p *Plan) Linux(w io.Writer, id fabric.NodeID) error {
	var b strings.Builder
	n := p.Fabric.Node(id)
	for port := fabric.PortNo(1); int(port) <= n.Ports(); port++ {
		addr := LinkLocal(fabric.End{Node: id, Port: port})
		fmt.Fprintf(&b, "address replace %v/64 dev %s nodad\n", addr, Interface(port))
	}
	if n.Tier == fabric.Host {
		p.linuxHost(&b, id)
	} else {
		if err := p.OwnSID(&b, id); err != nil {
			return err
		}
		for _, r := range p.Routes(id) {
			fmt.Fprintf(&b, "route replace %v", r.To)
			for _, hop := range r.Hops {
				if len(r.Hops) > 1 {
					b.WriteString(" nexthop")
				}
				fmt.Fprintf(&b, " via %v dev %s", hop.Via, Interface(hop.Port))
			}
			b.WriteString("\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// linuxHost writes a host's part. RoCEv2 packets get an outer header for the path that their source port names;
// incoming outer headers are removed.
func (p *Plan) linuxHost(b *strings.Builder, id fabric.NodeID) {
	f := p.Fabric
	tor := f.Link(f.Node(id).Link(1)).Peer(id)
	via := fmt.Sprintf("via %v dev %s", LinkLocal(tor), Interface(1))
	fmt.Fprintf(b, "address replace %v/128 dev %s nodad\n", f.HostAddr6(id), Interface(1))
	fmt.Fprintf(b, "route replace %v %s\n", fabricPrefix6, via)
	fmt.Fprintf(b, "route replace %v %s\n", fabric.USIDBlock, via)
	fmt.Fprintf(b, "route replace %v encap seg6local action End.DT6 table 255 dev %s\n", fabric.Locator(id), Interface(1))
	ruled := map[fabric.Label]bool{}
	for h := range f.Hosts() {
		for _, path := range p.Paths(id, fabric.NodeID(h)) {
			table := firstTable + int(path.Label)
			if !ruled[path.Label] {
				ruled[path.Label] = true
				fmt.Fprintf(b, "rule add ipproto udp sport %d dport %d lookup %d\n", path.Port, fabric.RoCEPort, table)
			}
			fmt.Fprintf(b, "route replace %v/128 encap seg6 mode encap.red segs %v %s table %d\n",
				f.HostAddr6(path.Dst), path.SID, via, table)
		}
	}
}
