package p4rt

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/targets"
	"github.com/ethereal-fabric/ethereal/fabric"
)

// Dialect is how one switch's P4Runtime differs from what the controller's core assumes: port numbers, tables that it
// lacks, limits.
type Dialect struct {
	Switch fabric.NodeID    // for programs whose entries depend on the switch
	Ports  *targets.PortMap // the switch's port numbers; nil: the fabric's
	// Lacks lists tables that the switch's program does not have. Writes to them are dropped.
	// [controller.PortOfUplink] is the inverse of [controller.UplinkOfPort] and is derived from it when read;
	// [Schema.ExpectedEntries] covers the others.
	Lacks []controller.Table
	// CloneBytes and CloneClass are the length and class of clone sessions for which the core sets none.
	CloneBytes, CloneClass int
	// CloneSession is the only clone session of a switch whose program overrides the session's port: the first
	// port's session then represents those of all mapped ports.
	CloneSession uint32
}

// NewDialect returns the dialect of one switch of the kind.
func NewDialect(p *targets.Profile, id fabric.NodeID, ports *targets.PortMap) Dialect {
	return Dialect{Switch: id, Ports: ports, Lacks: p.Lacks, CloneBytes: p.CloneBytes, CloneClass: p.CloneClass,
		CloneSession: p.CloneSession}
}

// ForDialect returns the schema with the dialect of one switch.
func (s *Schema) ForDialect(d Dialect) *Schema {
	t := *s
	t.dialect = d
	return &t
}

// lacksTable reports whether the switch does not have the table.
func (s *Schema) lacksTable(t controller.Table) bool { return slices.Contains(s.dialect.Lacks, t) }

// identity reports whether the switch needs no translation.
func (d *Dialect) identity() bool {
	return d.Ports.Len() == 0 && d.CloneBytes == 0 && d.CloneClass == 0
}

const portParam = "port"

// toSwitch returns the entry with the switch's port numbers.
func (d *Dialect) toSwitch(e controller.Entry) (controller.Entry, error) {
	if d.identity() {
		return e, nil
	}
	return d.translate(e, func(p uint64) (uint64, error) {
		id, ok := d.Ports.ID(fabric.PortNo(p))
		if !ok {
			return 0, fmt.Errorf("port %d is not mapped; the switch's map has %d ports", p, d.Ports.Len())
		}
		return uint64(id), nil
	}, [2]uint64{}, [2]uint64{uint64(d.CloneBytes), uint64(d.CloneClass)}, d.soleSession)
}

// fromSwitch returns the entry with the fabric's port numbers.
func (d *Dialect) fromSwitch(e controller.Entry) (controller.Entry, error) {
	if d.identity() {
		return e, nil
	}
	return d.translate(e, func(id uint64) (uint64, error) {
		if id <= targets.MaxDevicePort {
			if p, ok := d.Ports.Port(uint32(id)); ok {
				return uint64(p), nil
			}
		}
		return 0, fmt.Errorf("port %d is none of the switch's map", id)
	}, [2]uint64{uint64(d.CloneBytes), uint64(d.CloneClass)}, [2]uint64{}, d.firstSession)
}

// firstPortSession is the fabric's session that a switch with a single session uses.
const firstPortSession = controller.CloneSessions + 1

// soleSession translates the first port's session number to the number of the switch's only session; firstSession
// is its inverse.
func (d *Dialect) soleSession(session uint64) (uint64, bool) {
	return uint64(d.CloneSession), session == firstPortSession
}

func (d *Dialect) firstSession(session uint64) (uint64, bool) {
	return firstPortSession, session == uint64(d.CloneSession)
}

// translate replaces every port of an entry, and a clone session's length and class if they equal from. If there is
// only one session, sole translates its number.
func (d *Dialect) translate(e controller.Entry, port func(uint64) (uint64, error), from, to [2]uint64,
	sole func(uint64) (uint64, bool)) (controller.Entry, error) {
	fail := func(err error) (controller.Entry, error) {
		return controller.Entry{}, fmt.Errorf("%w: %v: %w", ErrEntry, e, err)
	}
	var err error
	out := e
	switch l := e.Table.Layout(); {
	case e.Table == controller.CloneSession && d.CloneSession != 0:
		var ok bool
		if out.Value.Lo, ok = sole(e.Value.Lo); !ok {
			return fail(errors.New("not the only session"))
		}
	case e.Table == controller.CloneSession:
		if e.Value.Lo < controller.CloneSessions {
			return fail(fmt.Errorf("a session below %d", controller.CloneSessions))
		}
		if out.Value.Lo, err = port(e.Value.Lo - controller.CloneSessions); err != nil {
			return fail(err)
		}
		out.Value.Lo += controller.CloneSessions
	case l.Key.Name == portParam:
		if out.Value.Lo, err = port(e.Value.Lo); err != nil {
			return fail(err)
		}
	}
	if len(e.Members) > 0 {
		out.Members = slices.Clone(e.Members)
		for i, m := range e.Members {
			p, err := port(uint64(m.Port))
			if err != nil {
				return fail(err)
			}
			out.Members[i].Port = fabric.PortNo(p)
		}
		slices.SortStableFunc(out.Members, func(a, b controller.Member) int { return int(a.Port) - int(b.Port) })
		return out, nil
	}
	for i, p := range e.Action.Layout().Params {
		if p.Name != portParam {
			continue
		}
		if out.Args[i], err = port(e.Args[i]); err != nil {
			return fail(err)
		}
	}
	if e.Action == controller.CloneTo && [2]uint64{e.Args[1], e.Args[2]} == from {
		out.Args[1], out.Args[2] = to[0], to[1]
	}
	return out, nil
}

// addLackingEntries appends to a switch's entries those of the tables, and of the clone sessions, that the switch
// lacks.
func (s *Schema) addLackingEntries(entries []controller.Entry) []controller.Entry {
	for _, e := range entries {
		switch {
		case s.lacksTable(controller.PortOfUplink) && e.Table == controller.UplinkOfPort && e.Action == controller.SetUplinkIndex:
			back := controller.Entry{
				Key:    controller.Key{Table: controller.PortOfUplink, Value: controller.Value{Lo: e.Args[0]}},
				Action: controller.TakeUplink,
			}
			back.Args[0] = e.Value.Lo
			entries = append(entries, back)
		case s.dialect.CloneSession != 0 && e.Table == controller.CloneSession:
			for p := 2; p <= s.dialect.Ports.Len(); p++ {
				e.Value.Lo, e.Args[0] = controller.CloneSessions+uint64(p), uint64(p)
				entries = append(entries, e)
			}
		}
	}
	return entries
}

// ExpectedEntries returns the entries that a switch should return when its tables are read back, given its full
// entries: kinds of switches lack some tables.
func (s *Schema) ExpectedEntries(entries []controller.Entry) []controller.Entry {
	if len(s.dialect.Lacks) == 0 {
		return entries
	}
	return slices.DeleteFunc(slices.Clone(entries), func(e controller.Entry) bool {
		back := e.Table == controller.PortOfUplink && !s.lacksTable(controller.UplinkOfPort)
		return s.lacksTable(e.Table) && !back
	})
}

// SupportedUpdates returns those of the updates whose tables and clone sessions the switch has.
func (s *Schema) SupportedUpdates(updates []controller.Update) []controller.Update {
	if len(s.dialect.Lacks) == 0 && s.dialect.CloneSession == 0 {
		return updates
	}
	return slices.DeleteFunc(slices.Clone(updates), func(u controller.Update) bool {
		other := s.dialect.CloneSession != 0 && u.Entry.Table == controller.CloneSession && u.Entry.Value.Lo != firstPortSession
		return other || s.lacksTable(u.Entry.Table)
	})
}
