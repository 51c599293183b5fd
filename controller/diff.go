package controller

// Op is the operation of an update.
type Op uint8

// The operations. A deletion uses only the key. The default action of a table is always modified.
const (
	Insert Op = iota
	Modify
	Delete
)

func (o Op) String() string { return [...]string{"insert", "modify", "delete"}[o] }

// Update is one change of a switch's tables.
type Update struct {
	Op    Op
	Entry Entry
}

func (u Update) String() string {
	if u.Op == Delete {
		return u.Op.String() + " " + u.Entry.Key.String()
	}
	return u.Op.String() + " " + u.Entry.String()
}

// Diff returns the updates that turn the tables old into the tables new, in
// make-before-break order. Both must be sorted by [Key.Compare], as
// [Core.Desired] returns them.
func Diff(old, new []Entry) []Update { return inPhases(appendDiff(nil, old, new)) }

// Phases splits updates into runs that may be sent at once. Each run must be in effect before the next is sent; see
// [Update.Phase].
func Phases(us []Update) (runs [][]Update) {
	for first, i := 0, 0; i < len(us); i++ {
		if i+1 == len(us) || us[i+1].Phase() != us[first].Phase() {
			runs = append(runs, us[first:i+1])
			first = i + 1
		}
	}
	return runs
}

// inPhases returns the updates sorted by phase, stably.
func inPhases(us []Update) []Update {
	if len(us) == 0 {
		return nil
	}
	var next [phaseCount]int // index of the next update of each phase
	for i := range us {
		next[us[i].Phase()]++
	}
	at := 0
	for p, n := range next {
		next[p], at = at, at+n
	}
	out := make([]Update, len(us))
	for i := range us {
		p := us[i].Phase()
		out[next[p]] = us[i]
		next[p]++
	}
	return out
}

// appendDiff appends the updates in the order of their keys.
func appendDiff(us []Update, old, new []Entry) []Update {
	for len(old) > 0 || len(new) > 0 {
		c := 0
		switch {
		case len(old) == 0:
			c = 1
		case len(new) == 0:
			c = -1
		default:
			c = old[0].Compare(new[0].Key)
		}
		switch {
		case c < 0:
			us = append(us, Update{Delete, Entry{Key: old[0].Key}})
			old = old[1:]
		case c > 0:
			op := Insert
			if new[0].Table.Layout().Match == Keyless {
				op = Modify
			}
			us = append(us, Update{op, new[0]})
			new = new[1:]
		default:
			if !old[0].sameContent(&new[0]) {
				us = append(us, Update{Modify, new[0]})
			}
			old, new = old[1:], new[1:]
		}
	}
	return us
}

// phaseCount is the number of phases.
const phaseCount = 15

// Phase orders the updates of one switch: updates of the same phase may be made in any order, a later phase only
// once an earlier one is in effect.
//
// A new group comes before the routes that name it, and these, longer prefixes first, before the groups that change
// under them: a destination that the changed group will no longer serve well has left it by then. Obsolete entries
// are deleted last and in the opposite order, shorter prefixes first, so that nothing falls back to a route that is
// about to be deleted.
func (u *Update) Phase() int {
	const (
		setup = iota
		newGroup
		route // and the three after it
		_
		_
		_
		group
		label
		goneLabel
		goneRoute // and the three after it
		_
		_
		_
		goneGroup
		goneSetup
		count
	)
	const _ = uint(phaseCount - count) // checks that all fit
	gone := u.Op == Delete
	pick := func(made, unmade int) int {
		if gone {
			return unmade
		}
		return made
	}
	switch u.Entry.Table {
	case ECMP:
		if u.Op == Modify {
			return group
		}
		return pick(newGroup, goneGroup)
	case UplinkGroup: // between the additions of its slots and their deletions
		if u.Op == Modify {
			return group
		}
		return pick(newGroup, goneGroup)
	case UplinkSlot:
		if u.Op == Modify {
			return group
		}
	case RouteV4, RouteV6:
		level := u.Entry.prefixLevel()
		return pick(route+level, goneRoute+3-level)
	case SourceRoute:
		return pick(label, goneLabel)
	}
	return pick(setup, goneSetup)
}

// prefixLevel returns 0 for a host's route, 1 for a ToR's, 2 for a pod's and 3
// for the default.
func (k Key) prefixLevel() int {
	tor, pod := uint8(torPrefixLen4), uint8(podPrefixLen4)
	if k.Table == RouteV6 {
		tor, pod = torPrefixLen6, podPrefixLen6
	}
	switch {
	case k.PrefixLen > tor:
		return 0
	case k.PrefixLen > pod:
		return 1
	case k.PrefixLen > 0:
		return 2
	}
	return 3
}

// Prefix lengths of the fabric's address plan.
const (
	podPrefixLen4, torPrefixLen4 = 16, 24
	podPrefixLen6, torPrefixLen6 = 48, 64
)
