package export

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// table is a table of SONiC's CONFIG_DB: fields by key.
type table map[string]map[string]string

// sonicPort returns SONiC's name of a port, by its first lane. Each port has the given number of lanes.
func sonicPort(p fabric.PortNo, lanes int) string {
	return "Ethernet" + strconv.Itoa((int(p)-1)*lanes)
}

// CheckLanes returns an error unless SONiC has ports of that number of serial lanes.
func CheckLanes(lanes int) error {
	if lanes < 1 || lanes > 16 {
		return fmt.Errorf("%w: sonic: ports of %d lanes; write 1 to 16, as the platform's port_config.ini has them",
			ErrPlan, lanes)
	}
	return nil
}

// SONiC writes a switch's part of CONFIG_DB, to be merged into the platform's own: its uSID as a locator and a SID,
// its ports' addresses, and static routes.
func (p *Plan) SONiC(w io.Writer, id fabric.NodeID, lanes int) error {
	const name = "MAIN"
	db := map[string]table{
		"SRV6_MY_LOCATORS": {name: {
			"prefix":    fabric.SID(id).String(),
			"block_len": strconv.Itoa(fabric.USIDBlockBits), "node_len": strconv.Itoa(fabric.USIDBits), "func_len": "16",
		}},
		"SRV6_MY_SIDS": {name + "|" + fabric.Locator(id).String(): {"action": "uN", "decap_dscp_mode": "pipe"}},
		"INTERFACE":    {}, "STATIC_ROUTE": {},
	}
	for port := fabric.PortNo(1); int(port) <= p.Fabric.Node(id).Ports(); port++ {
		at := sonicPort(port, lanes)
		db["INTERFACE"][at] = map[string]string{}
		db["INTERFACE"][fmt.Sprintf("%s|%v/64", at, LinkLocal(fabric.End{Node: id, Port: port}))] = map[string]string{}
	}
	for _, r := range p.Routes(id) {
		var via, ports []string
		for _, hop := range r.Hops {
			via, ports = append(via, hop.Via.String()), append(ports, sonicPort(hop.Port, lanes))
		}
		db["STATIC_ROUTE"]["default|"+r.To.String()] = map[string]string{
			"nexthop": strings.Join(via, ","), "ifname": strings.Join(ports, ","),
		}
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(db)
}

// SONiCACL writes the alternative without an outer header, for a switch with uplinks: rules that redirect packets
// from below to their label's uplink, by RoCEv2's source port. For other switches it writes nothing.
func (p *Plan) SONiCACL(w io.Writer, id fabric.NodeID, lanes int) error {
	f, rules, below := p.Fabric, table{}, []string{}
	for port := fabric.PortNo(1); int(port) <= f.Node(id).Ports(); port++ {
		if there := f.Link(f.Node(id).Link(port)).Peer(id); f.Node(there.Node).Tier < f.Node(id).Tier {
			below = append(below, sonicPort(port, lanes))
		}
	}
	for label, port := range p.uplinks(id) {
		rules[fmt.Sprintf("ETHEREAL|LABEL_%d", label)] = map[string]string{
			"PRIORITY": strconv.Itoa(1000 + int(label)), "IP_PROTOCOL": "17", "L4_DST_PORT": strconv.Itoa(fabric.RoCEPort),
			"L4_SRC_PORT": strconv.Itoa(fabric.FirstLabelPort | int(label)),
			"REDIRECT_ACTION": fmt.Sprintf("%v@%s",
				LinkLocal(f.Link(f.Node(id).Link(port)).Peer(id)), sonicPort(port, lanes)),
		}
	}
	db := map[string]any{}
	if len(rules) > 0 {
		db["ACL_TABLE"] = map[string]any{"ETHEREAL": map[string]any{
			"type": "L3V6", "stage": "ingress", "policy_desc": "labels to uplinks", "ports": below,
		}}
		db["ACL_RULE"] = rules
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(db)
}

// uplinks returns a switch's uplink port per label. For an aggregation switch they follow from a ToR below.
func (p *Plan) uplinks(id fabric.NodeID) map[fabric.Label]fabric.PortNo {
	out, f := map[fabric.Label]fabric.PortNo{}, p.Fabric
	src := id
	for port := fabric.PortNo(1); int(port) <= f.Node(id).Ports(); port++ {
		if there := f.Link(f.Node(id).Link(port)).Peer(id).Node; f.Node(there).Tier == fabric.ToR {
			src = min(src, there)
		}
	}
	if f.Node(src).Tier != fabric.ToR {
		return nil
	}
	for i := range f.ToRs() {
		for _, l := range f.PathLabels(src, f.ToRID(i)) {
			hops, _ := f.Path(nil, src, f.ToRID(i), l)
			for _, h := range hops {
				if h.From == id && f.Node(f.Link(h.Link).Peer(id).Node).Tier > f.Node(id).Tier {
					out[l] = h.Port
				}
			}
		}
	}
	return out
}
