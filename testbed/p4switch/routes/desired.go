package routes

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/testbed/p4switch/program"
)

// ErrProgram is what a program fails with that has other tables than Ethereal's.
var ErrProgram = errors.New("the program's tables are not those that routes can follow")

// Kind says what a route does.
type Kind uint8

const (
	// Via forwards by one of the hops.
	Via Kind = iota
	// Discard drops.
	Discard
	// Shift takes the switch's own micro segment off the list.
	Shift
	// Unwrap takes the outer header off and looks again.
	Unwrap
)

var kindNames = [...]string{"via", "discard", "shift", "unwrap"}

func (k Kind) String() string { return kindNames[k] }

// Route is what the kernel is to do with packets to a prefix.
type Route struct {
	To   netip.Prefix
	Kind Kind
	Hops []Hop // of Via, by port
}

// Equal reports whether two routes are the same.
func (r Route) Equal(o Route) bool {
	return r.To == o.To && r.Kind == o.Kind && slices.Equal(r.Hops, o.Hops)
}

// Hop is a way on.
type Hop struct {
	Port   uint32
	MAC    [6]byte // of who is there; zero: the port's neighbour
	Weight int     // share of the packets, 1 or more
}

// tables reads the program's tables by their names.
type tables struct {
	sw      *interp.Switch
	program *program.Program
	up      func(port uint32) bool
}

// Desired returns the routes that a switch's tables mean, with the ports that are up.
func Desired(sw *interp.Switch, up func(port uint32) bool) ([]Route, error) {
	t := tables{sw, sw.Program(), up}
	own, err := t.table(controller.OwnSegment)
	if err != nil {
		return nil, err
	}
	var out []Route
	for _, e := range sw.Entries(own) {
		if t.name(e.Target) == controller.ShiftSegments.String() {
			out = append(out, Route{To: prefix(e.Match[0].Value, fabric.USIDBlockBits+fabric.USIDBits, true), Kind: Shift})
		}
	}
	for _, table := range []controller.Table{controller.RouteV4, controller.RouteV6} {
		id, err := t.table(table)
		if err != nil {
			return nil, err
		}
		for _, e := range sw.Entries(id) {
			m := e.Match[0]
			to := prefix(m.Value, m.PrefixLen, table == controller.RouteV6)
			if m.Any {
				to = netip.PrefixFrom(to.Addr(), 0)
			}
			r, err := t.route(to, e.Target)
			if err != nil {
				return nil, fmt.Errorf("routes: %v %v: %w", table, to, err)
			}
			out = append(out, r)
		}
	}
	return out, nil
}

func (t *tables) table(want controller.Table) (program.TableID, error) {
	id, ok := t.program.TableByName(want.String())
	if !ok {
		return 0, fmt.Errorf("routes: %w: it has no %v", ErrProgram, want)
	}
	return id, nil
}

// name returns the name of an entry's action.
func (t *tables) name(g interp.Target) string {
	if g.Kind != interp.ByAction {
		return ""
	}
	return t.program.Actions[g.Call.Action].Info.Name
}

// route returns what an entry of a route table means.
func (t *tables) route(to netip.Prefix, g interp.Target) (r Route, err error) {
	r.To = to
	var args [2]uint64
	for i, a := range g.Call.Args {
		args[i] = number(a)
	}
	hop := Hop{Port: uint32(args[0]), Weight: 1}
	switch name := t.name(g); name {
	case controller.Deliver.String():
		for i := range hop.MAC {
			hop.MAC[i] = byte(args[1] >> (40 - 8*i))
		}
		r.Hops = t.living(hop)
	case controller.ForwardDown.String():
		r.Hops = t.living(hop)
	case controller.ForwardUplink.String():
		if r.Hops = t.living(hop); len(r.Hops) == 0 {
			r.Kind = Unwrap
			return r, nil
		}
	case controller.ForwardUp.String():
		if r.Hops, err = t.group(args[0]); err != nil {
			return r, err
		}
	case controller.Discard.String():
	default:
		return r, fmt.Errorf("%w: action %q", ErrProgram, name)
	}
	if len(r.Hops) == 0 {
		r.Kind = Discard
	}
	return r, nil
}

// living returns the hop, or nothing when its port is down.
func (t *tables) living(h Hop) []Hop {
	if !t.up(h.Port) {
		return nil
	}
	return []Hop{h}
}

// group returns the hops of an ECMP group.
func (t *tables) group(number uint64) ([]Hop, error) {
	id, err := t.table(controller.ECMP)
	if err != nil {
		return nil, err
	}
	profile := t.program.Tables[id].Info.Profile
	for _, e := range t.sw.Entries(id) {
		if numberOf(e.Match) != number || e.Target.Kind != interp.ByGroup {
			continue
		}
		members, err := t.sw.Group(profile, e.Target.Group)
		if err != nil {
			return nil, err
		}
		return t.members(profile, members)
	}
	return nil, nil // as a packet finds none
}

// members returns the hops of a group's members: how often one is there is its weight.
func (t *tables) members(profile program.ProfileID, members []interp.MemberID) (out []Hop, err error) {
	for _, m := range members {
		call, err := t.sw.Member(profile, m)
		if err != nil {
			return nil, err
		}
		if t.program.Actions[call.Action].Info.Name != controller.TakeUplink.String() {
			continue // NoAction: a packet that meets it is dropped
		}
		port := uint32(number(call.Args[0]))
		i := slices.IndexFunc(out, func(h Hop) bool { return h.Port == port })
		if i >= 0 {
			out[i].Weight++
		} else {
			out = append(out, t.living(Hop{Port: port, Weight: 1})...)
		}
	}
	slices.SortFunc(out, func(a, b Hop) int { return int(a.Port) - int(b.Port) })
	return out, nil
}

func numberOf(m []program.FieldMatch) uint64 { return number(m[0].Value) }

// number reads a value of up to 64 bits.
func number(b []byte) (n uint64) {
	for _, x := range b {
		n = n<<8 | uint64(x)
	}
	return n
}

// prefix reads the first bits of an address. Of an IPv6 address the value may be the beginning alone.
func prefix(value []byte, bits int, v6 bool) netip.Prefix {
	if !v6 {
		var a [4]byte
		copy(a[max(0, 4-len(value)):], value)
		return netip.PrefixFrom(netip.AddrFrom4(a), bits)
	}
	var a [16]byte
	copy(a[:], value)
	return netip.PrefixFrom(netip.AddrFrom16(a), bits)
}
