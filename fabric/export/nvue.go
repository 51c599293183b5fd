package export

import (
	"fmt"
	"io"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// NVUE writes a switch's commands for Cumulus Linux, 5.14 and later: ports are swp1, swp2, ...
func (p *Plan) NVUE(w io.Writer, id fabric.NodeID) error {
	var b strings.Builder
	set := func(format string, args ...any) { fmt.Fprintf(&b, "nv set "+format+"\n", args...) }
	const locator = "router segment-routing srv6 locator MAIN "
	sid := "router segment-routing static srv6-sid " + fabric.Locator(id).String()
	set("router segment-routing srv6 state enabled")
	set(locator+"prefix %v", fabric.Locator(id))
	set(locator+"block-length %d", fabric.USIDBlockBits)
	set(locator+"node-length %d", fabric.USIDBits)
	set(locator + "func-length 0")
	set("%s locator-name MAIN", sid)
	set("%s behavior uN", sid)
	for port := fabric.PortNo(1); int(port) <= p.Fabric.Node(id).Ports(); port++ {
		set("interface swp%d ip address %v/64", port, LinkLocal(fabric.End{Node: id, Port: port}))
	}
	for _, r := range p.Routes(id) {
		for _, hop := range r.Hops {
			set("vrf default router static %v via %v interface swp%d", r.To, hop.Via, hop.Port)
		}
	}
	b.WriteString("nv config apply\n")
	_, err := io.WriteString(w, b.String())
	return err
}
