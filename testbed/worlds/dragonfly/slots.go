package dragonfly

import (
	"math/rand/v2"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/dragonfly"
)

// Schemes that decide by queues have them here in a coarse form. Time goes in slots, in each of which a
// host sends one chunk at its link's rate, of its flows in turn. A chunk joins the queues of all channels of its path
// at once, and in a slot each queue loses what its channel carries. Nobody slows down. What comes of
// it is how many bytes of each flow took which path; the queues themselves are no result.

// chunk is what a host sends in a slot.
const chunk = 8192 // bytes

// mostSlots bounds the work: chunks grow beyond it.
const mostSlots = 4096

// Of Spritz, as its authors' code has it (UecMpSource in SPCL's htsim): how many good paths a flow
// keeps, after how many packets it explores, and how many marks a path of the scout is forgiven. ECN marks begin
// at a fifth of a bandwidth-delay product and are certain from four fifths.
const (
	goodPaths    = 9
	exploreAfter = 10
	forgiven     = 8
	markFrom     = 0.2
	markAll      = 0.8
)

// slotted is the state of a run in slots.
type slotted struct {
	n     *net
	queue []float64 // bytes' time, by channel
	rng   *rand.Rand
	bdp   float64 // as a time: a round trip by the longest minimal path
}

// choice is a pair of routers as a sender sees it.
type choice struct {
	paths   []dragonfly.Path
	minimal int       // how many of the first are minimal
	chance  []float64 // of detours, or of all paths: summed up
}

// pathState is what Spritz keeps of a flow.
type pathState struct {
	good   []int
	marks  int
	packet int
}

// told is an answer on its way back to a sender.
type told struct {
	flow, path int
	marked     bool
}

// slots divides flows as ugal and spritz do.
func (r *run) slots(s *scheme, flows []flow) []part {
	st := &slotted{
		n: r.net, queue: make([]float64, len(r.net.perByte)), bdp: r.net.roundTrip(),
		rng: rand.New(rand.NewPCG(r.seed, 0x510)),
	}
	f := r.net.f
	own := make([][]int, f.Hosts())
	most := int64(0)
	sum := make([]int64, f.Hosts())
	for i, x := range flows {
		sum[x.src] += x.bytes
		most = max(most, sum[x.src])
		if f.RouterOf(x.src) != f.RouterOf(x.dst) {
			own[x.src] = append(own[x.src], i)
		}
	}
	for _, list := range own {
		st.rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	size := max(chunk, (most+mostSlots-1)/mostSlots)
	left := make([]int64, len(flows))
	for i, x := range flows {
		left[i] = x.bytes
	}
	bytes := make([]map[int]int64, len(flows)) // by path
	choices := map[[2]int]*choice{}
	states := make([]pathState, len(flows))
	turn := make([]int, f.Hosts())
	order := st.rng.Perm(f.Hosts())
	slot := float64(size) * r.net.perByte[uplink(0)]
	delay := int(st.bdp/slot) + 1
	answers := make([][]told, delay)
	for now, busy := 0, true; busy; now++ {
		busy = false
		for _, a := range answers[now%delay] {
			states[a.flow].hear(s, a)
		}
		answers[now%delay] = answers[now%delay][:0]
		for _, host := range order {
			if len(own[host]) == 0 {
				continue
			}
			busy = true
			at := turn[host] % len(own[host])
			i := own[host][at]
			turn[host] = at + 1
			key := [2]int{f.RouterOf(flows[i].src), f.RouterOf(flows[i].dst)}
			c := choices[key]
			if c == nil {
				c = r.net.choice(s, key[0], key[1])
				choices[key] = c
			}
			k := 0
			if s.name == ugal {
				k = st.ugal(s, c)
			} else {
				k = st.spritz(s, c, &states[i])
			}
			n := min(size, left[i])
			marked := st.send(c.paths[k].Channels, n)
			answers[now%delay] = append(answers[now%delay], told{i, k, marked})
			if bytes[i] == nil {
				bytes[i] = map[int]int64{}
			}
			bytes[i][k] += n
			if left[i] -= n; left[i] == 0 {
				own[host] = slices.Delete(own[host], at, at+1)
				turn[host] = at
			}
		}
		for c := range st.queue {
			st.queue[c] = max(st.queue[c]-slot, 0)
		}
	}
	var out []part
	for i, m := range bytes {
		if m == nil {
			continue
		}
		c := choices[[2]int{f.RouterOf(flows[i].src), f.RouterOf(flows[i].dst)}]
		for k := range c.paths {
			if n := m[k]; n > 0 {
				out = append(out, part{i, c.paths[k].Channels, float64(n)})
			}
		}
	}
	return out
}

// choice gathers what a sender knows of a pair of routers.
func (n *net) choice(s *scheme, src, dst int) *choice {
	c := &choice{paths: n.way(src, dst, s.set())}
	for c.minimal < len(c.paths) && len(c.paths[c.minimal].Channels) <= 3 && int(c.paths[c.minimal].Name) < n.f.Layers() {
		c.minimal++
	}
	if s.name == ugal {
		detours, weights := n.detours(src, dst, s.set())
		if c.minimal == 0 { // the minimal path is dead: what is shortest now takes its place
			c.minimal = 1
		}
		c.paths = slices.Concat(c.paths[:c.minimal], detours)
		c.chance = make([]float64, c.minimal, len(c.paths))
		sum := 0.0
		for _, w := range weights {
			sum += w
			c.chance = append(c.chance, sum)
		}
		return c
	}
	// A path's weight is the longest latency over its own, times the scale but for the longest ones.
	longest := 0.0
	latency := make([]float64, len(c.paths))
	for k, p := range c.paths {
		for _, ch := range p.Channels {
			latency[k] += float64(n.f.Link(int(ch / 2)).Delay)
		}
		latency[k] = max(latency[k], 1)
		longest = max(longest, latency[k])
	}
	sum := 0.0
	for k := range c.paths {
		w := longest / latency[k]
		switch scale := s.number["scale"]; {
		case scale == 0:
			w = 1
		case w != 1:
			w *= scale
		}
		sum += w
		c.chance = append(c.chance, sum)
	}
	return c
}

// draw picks a path of a choice by its chances, from a first one on.
func (st *slotted) draw(c *choice, first int) int {
	x := st.rng.Float64() * c.chance[len(c.chance)-1]
	k, _ := slices.BinarySearch(c.chance[first:], x)
	return min(first+k, len(c.chance)-1)
}

// ugal picks a minimal path, or a detour if the queue there times its length is less (UGAL-L: the queue
// of the first channel; UGAL-G: those of the whole path).
func (st *slotted) ugal(s *scheme, c *choice) int {
	short, long := st.rng.IntN(c.minimal), st.draw(c, c.minimal)
	cost := func(k int) float64 {
		path := c.paths[k].Channels
		if s.choice["sees"] == "path" {
			sum := 0.0
			for _, ch := range path {
				sum += st.queue[ch]
			}
			return sum
		}
		return st.queue[path[0]] * float64(len(path))
	}
	if cost(short) <= cost(long) {
		return short
	}
	return long
}

// spritz picks a good path, or draws one: the spray takes each good path once, the scout stays with the first.
func (st *slotted) spritz(s *scheme, c *choice, p *pathState) int {
	if p.packet > exploreAfter {
		p.packet = 0
		return st.draw(c, 0)
	}
	spray := s.choice["mode"] == "spray"
	if spray || len(p.good) > 0 {
		p.packet++
	}
	if len(p.good) == 0 {
		return st.draw(c, 0)
	}
	k := p.good[0]
	if spray {
		p.good = p.good[1:]
	}
	return k
}

// hear takes an answer.
func (p *pathState) hear(s *scheme, a told) {
	if s.name != spritz {
		return
	}
	at := slices.Index(p.good, a.path)
	switch {
	case !a.marked && len(p.good) < goodPaths && (s.choice["mode"] == "spray" || at < 0):
		p.good = append(p.good, a.path)
	case a.marked && s.choice["mode"] == "scout" && at >= 0:
		if p.marks++; p.marks > forgiven {
			p.marks = 0
			p.good = slices.Delete(p.good, at, at+1)
		}
	}
}

// send adds a chunk to the queues of a path, and says whether it is marked.
func (st *slotted) send(path []int32, bytes int64) (marked bool) {
	for _, c := range path {
		if depth := (st.queue[c]/st.bdp - markFrom) / (markAll - markFrom); depth > 0 && st.rng.Float64() < depth {
			marked = true
		}
		st.queue[c] += float64(bytes) * st.n.perByte[c]
	}
	return marked
}

// roundTrip is the propagation of the longest minimal path there and back.
func (n *net) roundTrip() float64 {
	s := n.f.Spec()
	one := 2*s.HostLink.Delay + 2*s.LocalLink.Delay + s.GlobalLink.Delay
	return float64(max(2*one, fabric.Nanosecond))
}
