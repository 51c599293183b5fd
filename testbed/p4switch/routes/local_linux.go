package routes

import (
	"errors"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// local is what SRv6 does at the switch itself, as a route's attributes. The netlink library has no flavours.
type local struct {
	name  string
	attrs []*nl.RtAttr
}

// Numbers of linux/seg6_local.h.
const (
	localAction    = 1
	localTable     = 3
	localNH4       = 4
	localFlavors   = 11
	flavorOps      = 1
	flavorBlock    = 2
	flavorNode     = 3
	flavorNextCSID = 1 << 4

	actionEnd = 1
	actionDX4 = 6
	actionDT6 = 7
)

func newLocal(name string, action uint32) *local {
	return &local{name, []*nl.RtAttr{nl.NewRtAttr(localAction, nl.Uint32Attr(action))}}
}

// nextCSID shifts the list of micro segments and looks again.
func nextCSID() *local {
	l := newLocal("End next-csid", actionEnd)
	f := nl.NewRtAttr(localFlavors|unix.NLA_F_NESTED, nil)
	f.AddRtAttr(flavorOps, nl.Uint32Attr(flavorNextCSID))
	f.AddRtAttr(flavorBlock, nl.Uint8Attr(fabric.USIDBlockBits))
	f.AddRtAttr(flavorNode, nl.Uint8Attr(fabric.USIDBits))
	l.attrs = append(l.attrs, f)
	return l
}

// unwrap6 takes the outer header off IPv6 and looks again.
func unwrap6() *local {
	l := newLocal("End.DT6", actionDT6)
	l.attrs = append(l.attrs, nl.NewRtAttr(localTable, nl.Uint32Attr(mainTable)))
	return l
}

// unwrap4 takes it off IPv4. End.DT4 takes a VRF; End.DX4 without a next hop looks where the packet goes, in the main table.
func unwrap4() *local {
	l := newLocal("End.DX4", actionDX4)
	l.attrs = append(l.attrs, nl.NewRtAttr(localNH4, make([]byte, 4)))
	return l
}

// Type implements [netlink.Encap].
func (*local) Type() int { return nl.LWTUNNEL_ENCAP_SEG6_LOCAL }

// Decode fails: these are only written.
func (*local) Decode([]byte) error { return errors.ErrUnsupported }

// Encode implements [netlink.Encap].
func (l *local) Encode() (out []byte, err error) {
	for _, a := range l.attrs {
		out = append(out, a.Serialize()...)
	}
	return out, nil
}

func (l *local) String() string { return l.name }

// Equal implements [netlink.Encap].
func (l *local) Equal(o netlink.Encap) bool {
	x, ok := o.(*local)
	return ok && x.name == l.name
}
