package scenario

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// NodeNamed returns the node with a name, or with a role that nodes of any fabric have:
//
//	agg1                          by its name
//	switch above tor0             at the other end of its first uplink; switch 2 above tor0: of its second
//	top switch, top switch 2      the first, or second, of the highest tier: a spine, or a core
func NodeNamed(f *fabric.Fabric, name string) (fabric.NodeID, error) {
	if role, node, ok := strings.Cut(name, " above "); ok {
		l, err := uplinkInRole(f, role, "switch", node)
		if err != nil {
			return 0, err
		}
		id, err := f.NodeByName(node)
		return f.Link(l).Peer(id).Node, err
	}
	if !strings.HasPrefix(name, "top ") {
		return f.NodeByName(name)
	}
	which, err := parseOrdinal(name, "top switch")
	if err != nil {
		return 0, err
	}
	first := f.Nodes() - f.Cores()
	if which < 1 || which > f.Cores() {
		return 0, fmt.Errorf("there is no top switch %d; write 1 to %d", which, f.Cores())
	}
	return fabric.NodeID(first + which - 1), nil
}

// linkNamed returns the link with a name, or with a role that links of any fabric have:
//
//	tor0-agg1                     by its name
//	uplink of tor0                its first; uplink 2 of tor0: its second
//	top uplink 2 of tor0          on the way over its second uplink, the link to the highest tier: with two tiers the
//	uplink itself,
//	                              with three the first uplink of the switch above
//	host link of h0               a host's link; host link 2 of h0: the one into the second plane
func linkNamed(f *fabric.Fabric, name string) (fabric.LinkID, error) {
	role, node, ok := strings.Cut(name, " of ")
	if !ok {
		return f.LinkByName(name)
	}
	if strings.HasPrefix(role, "host link") {
		if id, err := f.NodeByName(node); err == nil && int(id) >= f.Hosts() {
			return 0, fmt.Errorf("%s is no host; name one, as in host link of h0", node)
		}
		return uplinkInRole(f, role, "host link", node)
	}
	rest, top := strings.CutPrefix(role, "top ")
	l, err := uplinkInRole(f, rest, "uplink", node)
	if err != nil || !top || !f.Clos() {
		return l, err
	}
	id, err := f.NodeByName(node)
	if err != nil {
		return 0, err
	}
	if above := f.Node(f.Link(l).Peer(id).Node); above.Uplinks() > 0 {
		return above.Link(above.FirstUplink()), nil
	}
	return l, nil
}

// uplinkInRole returns the uplink of a node in a role such as "uplink 2". word is the first word of the role.
func uplinkInRole(f *fabric.Fabric, role, word, node string) (fabric.LinkID, error) {
	which, err := parseOrdinal(role, word)
	if err != nil {
		return 0, err
	}
	id, err := f.NodeByName(node)
	if err != nil {
		return 0, err
	}
	n := f.Node(id)
	switch up := n.Uplinks(); {
	case up == 0:
		return 0, fmt.Errorf("%s has no uplink; name another node, as in uplink of tor0", node)
	case which < 1 || which > up:
		return 0, fmt.Errorf("%s has no %s %d; write 1 to %d", node, word, which, up)
	}
	return n.Link(n.FirstUplink() + fabric.PortNo(which-1)), nil
}

// parseOrdinal reads "uplink", which means the first, or "uplink 2".
func parseOrdinal(role, word string) (int, error) {
	number, ok := strings.CutPrefix(role, word)
	if number = strings.TrimSpace(number); ok && number == "" {
		return 1, nil
	}
	which, err := strconv.Atoi(number)
	if !ok || err != nil {
		return 0, fmt.Errorf("%q is no role; write for example uplink of tor0, uplink 2 of tor0, top uplink of tor0, host link of h0, switch above tor0 or top switch", role)
	}
	return which, nil
}
