package dragonfly

import "slices"

// Name names a path between any two routers. Of a fabric with g groups, r routers
// and m links between every two groups it is, in this order,
//
//	0 to m-1                 the minimal path, by that link
//	m + (x*m+i)*m+j          by group x, entered by link i and left by link j (Valiant by group)
//	m + g*m*m + (y*m+i)*m+j  by router y likewise (Valiant by router)
//
// Between two routers of a group the minimal path is the local link, whatever m.
type Name uint16

// MaxChannels is the most channels a path has, the two of the hosts' links included.
const MaxChannels = 8

// Minimal returns the name of the minimal path by a link of its two groups.
func (f *Fabric) Minimal(layer int) Name { return Name(layer) }

// ByGroup returns the name of the path by a group.
func (f *Fabric) ByGroup(group, in, out int) Name {
	return Name(f.layers + (group*f.layers+in)*f.layers + out)
}

// ByRouter returns the name of the path by a router.
func (f *Fabric) ByRouter(router, in, out int) Name {
	return Name(f.layers + f.Groups()*f.layers*f.layers + (router*f.layers+in)*f.layers + out)
}

// Names returns how many names there are: they are 0 to Names()-1.
func (f *Fabric) Names() int {
	return f.layers + (f.Groups()+f.Routers())*f.layers*f.layers
}

// Way appends the channels from one router to another by a name. ok is false if that is no path of this
// pair, or one that has another name: an intermediate group must be a third one, an intermediate router
// must be off the minimal path and off the path by its group, and no router is passed twice.
func (f *Fabric) Way(to []int32, src, dst int, name Name) (path []int32, ok bool) {
	if src == dst {
		return to, name == 0
	}
	m, n := f.layers, int(name)
	from, end := f.GroupOf(src), f.GroupOf(dst)
	if n < m {
		return f.minimal(to, src, dst, n), n == 0 || from != end
	}
	via, in, out := (n-m)/(m*m), (n-m)/m%m, (n-m)%m
	if via < f.Groups() {
		if via == from || via == end || from == end {
			return to, false
		}
		entry := f.gates[via*f.Groups()+from][in].router
		to = f.minimal(to, src, int(entry), in)
		return f.minimal(to, int(entry), dst, out), true
	}
	via -= f.Groups()
	group := f.GroupOf(via)
	switch {
	case via >= f.Routers() || via == src || via == dst:
		return to, false
	case group == from && in > 0 || group == end && out > 0: // a local link takes no choice
		return to, false
	case from == end:
		if group != from {
			return to, false
		}
	case group == from:
		if via == int(f.gates[from*f.Groups()+end][out].router) || src == int(f.gates[from*f.Groups()+end][out].router) {
			return to, false
		}
	case group == end:
		if via == int(f.gates[end*f.Groups()+from][in].router) || dst == int(f.gates[end*f.Groups()+from][in].router) {
			return to, false
		}
	default:
		if via == int(f.gates[group*f.Groups()+from][in].router) || via == int(f.gates[group*f.Groups()+end][out].router) {
			return to, false
		}
		if f.gates[group*f.Groups()+from][in].router == f.gates[group*f.Groups()+end][out].router {
			return to, false
		}
	}
	to = f.minimal(to, src, via, in)
	return f.minimal(to, via, dst, out), true
}

// minimal appends the minimal path by a link of the two groups.
func (f *Fabric) minimal(to []int32, src, dst, layer int) []int32 {
	from, end := f.GroupOf(src), f.GroupOf(dst)
	if from == end {
		if src != dst {
			to = append(to, f.local(src, dst))
		}
		return to
	}
	leave, arrive := f.gates[from*f.Groups()+end][layer], f.gates[end*f.Groups()+from][layer]
	if int(leave.router) != src {
		to = append(to, f.local(src, int(leave.router)))
	}
	to = append(to, leave.channel)
	if int(arrive.router) != dst {
		to = append(to, f.local(int(arrive.router), dst))
	}
	return to
}

// local returns the channel from a router to another of its group.
func (f *Fabric) local(from, to int) int32 {
	a := f.spec.RoutersPerGroup
	i, j, back := from%a, to%a, 0
	if i > j {
		i, j, back = j, i, 1
	}
	return int32(2*(f.hosts+f.GroupOf(from)*a*(a-1)/2+i*(2*a-i-1)/2+j-i-1) + back)
}

// Path is a way between two routers, with its name.
type Path struct {
	Name     Name
	Channels []int32
}

// Set says which paths a scheme knows.
type Set int

// Sets, each with those before it.
const (
	MinimalPaths Set = iota
	GroupPaths       // and those by another group; within a group, by another router
	AllPaths         // and those by another router
)

// Paths returns the paths of a set between two routers, the shortest first, without those over a dead
// channel. If all of a set are dead it returns the shortest that are left of all: what routing
// protocols find then.
func (f *Fabric) Paths(src, dst int, set Set, dead func(channel int32) bool) []Path {
	if src == dst {
		return []Path{{}}
	}
	m := f.layers
	last := m
	same := f.GroupOf(src) == f.GroupOf(dst)
	switch {
	case set == AllPaths || set == GroupPaths && same:
		last = f.Names()
	case set == GroupPaths:
		last += f.Groups() * m * m
	}
	out := f.living(src, dst, last, dead)
	if len(out) == 0 {
		out = f.living(src, dst, f.Names(), dead)
		for i := range out {
			if len(out[i].Channels) > len(out[0].Channels) {
				return out[:i]
			}
		}
	}
	return out
}

func (f *Fabric) living(src, dst, names int, dead func(int32) bool) []Path {
	var out []Path
	var buf [MaxChannels]int32
	for n := range names {
		way, ok := f.Way(buf[:0], src, dst, Name(n))
		if !ok || dead != nil && slices.ContainsFunc(way, dead) {
			continue
		}
		out = append(out, Path{Name(n), slices.Clone(way)})
	}
	slices.SortStableFunc(out, func(a, b Path) int { return len(a.Channels) - len(b.Channels) })
	return out
}
