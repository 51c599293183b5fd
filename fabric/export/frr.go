package export

import (
	"fmt"
	"io"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// FRR writes a switch's frr.conf: the addresses of its ports, and static routes. With sids, FRR also installs the
// switch's own uSID as a static SID, which it can since 10.3. Without, another program must install it in the
// kernel: see [Plan.OwnSID].
func (p *Plan) FRR(w io.Writer, id fabric.NodeID, sids bool) error {
	var b strings.Builder
	n := p.Fabric.Node(id)
	fmt.Fprintf(&b, "frr defaults datacenter\nhostname %s\nipv6 forwarding\n!\n", p.Fabric.Name(id))
	for port := fabric.PortNo(1); int(port) <= n.Ports(); port++ {
		fmt.Fprintf(&b, "interface %s\n ipv6 address %v/64\nexit\n!\n",
			Interface(port), LinkLocal(fabric.End{Node: id, Port: port}))
	}
	for _, r := range p.Routes(id) {
		for _, hop := range r.Hops { // lines with the same prefix make one route with several next hops
			fmt.Fprintf(&b, "ipv6 route %v %v %s\n", r.To, hop.Via, Interface(hop.Port))
		}
	}
	b.WriteString("!\n")
	if sids {
		fmt.Fprintf(&b, `segment-routing
 srv6
  locators
   locator MAIN
    prefix %v block-len %d node-len %d func-bits 16
    behavior usid
   exit
   !
  exit
  !
  static-sids
   sid %v locator MAIN behavior uN
  exit
  !
 exit
 !
exit
!
`, fabric.Locator(id), fabric.USIDBlockBits, fabric.USIDBits, fabric.Locator(id))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// OwnSID writes a switch's own uSID for `ip -6 -batch`: shift the list, and look up the next one.
func (p *Plan) OwnSID(w io.Writer, id fabric.NodeID) error {
	_, err := fmt.Fprintf(w, "route replace %v encap seg6local action End flavors next-csid lblen %d nflen %d dev %s\n",
		fabric.Locator(id), fabric.USIDBlockBits, fabric.USIDBits, Interface(1))
	return err
}

// SIDInterface writes the interface for FRR's static SIDs, for `ip -batch`.
func (p *Plan) SIDInterface(w io.Writer, _ fabric.NodeID) error {
	_, err := io.WriteString(w, "link add sr0 type dummy\nlink set sr0 up\n")
	return err
}
