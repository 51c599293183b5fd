package controller

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Named returns a table entry's match and action as text with the fabric's names, as in "h5 10.0.1.3/32" and "deliver
// to h5 by port 2".
func (e Entry) Named(f *fabric.Fabric, node fabric.NodeID) (key, does string) {
	if e.Table >= tableCount || e.Action >= actionCount {
		return e.Key.String(), e.Action.String()
	}
	l := e.Table.Layout()
	_, key, _ = strings.Cut(e.Key.String(), " ")
	switch {
	case l.Match == Keyless:
		key = "every packet"
	case l.Match == LPM:
		key = strings.TrimSpace(prefixName(f, e.Key) + " " + key)
	case l.Match == Exact && l.Key.Name == "port":
		key = portName(f, node, e.Value.Lo)
	default:
		key = l.Key.Name + " " + key
	}
	return key, e.actionText(f, node)
}

// actionText describes the entry's action.
func (e Entry) actionText(f *fabric.Fabric, node fabric.NodeID) string {
	var parts []string
	if e.Table.Layout().Selector {
		for _, m := range e.Members {
			part := portName(f, node, uint64(m.Port))
			if m.Weight != 1 {
				part += fmt.Sprintf(" with %d shares", m.Weight)
			}
			parts = append(parts, part)
		}
		return e.Action.String() + " one of: " + strings.Join(parts, "; ")
	}
	if e.Action == OwnAddresses {
		return fmt.Sprintf("%v %v and %v", e.Action, addr4(e.Args[0]), addr6(Value{Hi: e.Args[1], Lo: e.Args[2]}))
	}
	for i, p := range e.Action.Layout().Params {
		switch {
		case p.Name == "port":
			parts = append(parts, portName(f, node, e.Args[i]))
		case p.Bits == 48:
			var mac [8]byte
			binary.BigEndian.PutUint64(mac[:], e.Args[i])
			parts = append(parts, fmt.Sprintf("%s %v", p.Name, net.HardwareAddr(mac[2:])))
		default:
			parts = append(parts, fmt.Sprintf("%s %d", p.Name, e.Args[i]))
		}
	}
	return strings.TrimSpace(e.Action.String() + " " + strings.Join(parts, ", "))
}

// portName names a port by the node at its other end.
func portName(f *fabric.Fabric, node fabric.NodeID, port uint64) string {
	n := f.Node(node)
	if port < 1 || port > uint64(n.Ports()) {
		return fmt.Sprintf("port %d", port)
	}
	peer := f.Link(n.Link(fabric.PortNo(port))).Peer(node)
	return fmt.Sprintf("to %s by port %d", f.Name(peer.Node), port)
}

// prefixName names the hosts that a prefix covers: a host, a ToR's hosts or a pod's; empty for others.
func prefixName(f *fabric.Fabric, k Key) string {
	var addr netip.Addr
	bits := int(k.PrefixLen)
	if k.Table.Layout().Key.Bits == 32 {
		addr = addr4(k.Value.Lo)
	} else {
		addr = addr6(k.Value)
	}
	if bits == 0 {
		return "all others"
	}
	if h, ok := f.HostByAddr(addr); ok && bits == addr.BitLen() {
		return f.Name(h)
	}
	prefix := netip.PrefixFrom(addr, bits)
	for i := range f.ToRs() {
		tor := f.ToRID(i)
		if prefix == f.ToRPrefix4(tor) || prefix == f.ToRPrefix6(tor) {
			return "hosts of " + f.Name(tor)
		}
		if pod := f.Node(tor).Pod; prefix == f.PodPrefix4(pod) || prefix == f.PodPrefix6(pod) {
			return fmt.Sprintf("hosts of pod %d", pod)
		}
	}
	return ""
}
