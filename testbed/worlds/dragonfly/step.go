package dragonfly

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/dragonfly"
	"github.com/ethereal-fabric/ethereal/hostagent/nonminimal"
)

// flow is a message of a step.
type flow struct {
	src, dst int
	bytes    int64
}

// part is bytes of a flow that take one path.
type part struct {
	flow  int
	path  []int32 // between the routers
	bytes float64
}

// net is a fabric with its dead links.
type net struct {
	f       *dragonfly.Fabric
	dead    map[int]bool // links
	perByte []float64    // time of a byte, by channel
	paths   map[pathKey][]dragonfly.Path
}

type pathKey struct {
	src, dst int
	set      dragonfly.Set
}

func newNet(f *dragonfly.Fabric, dead []int) *net {
	n := &net{f: f, dead: map[int]bool{}, paths: map[pathKey][]dragonfly.Path{}, perByte: make([]float64, 2*f.Links())}
	for _, l := range dead {
		n.dead[l] = true
	}
	for c := range n.perByte {
		n.perByte[c] = 8 * float64(fabric.Second) / float64(f.Link(c/2).Rate)
	}
	return n
}

func (n *net) isDead(c int32) bool { return n.dead[int(c/2)] }

// way returns the living paths between two routers.
func (n *net) way(src, dst int, set dragonfly.Set) []dragonfly.Path {
	key := pathKey{src, dst, set}
	paths, ok := n.paths[key]
	if !ok {
		var dead func(int32) bool
		if len(n.dead) > 0 {
			dead = n.isDead
		}
		paths = n.f.Paths(src, dst, set, dead)
		n.paths[key] = paths
	}
	return paths
}

// parted returns an error if a flow has no living path that has a name.
func (n *net) parted(flows []flow) error {
	for _, x := range flows {
		if src, dst := n.f.RouterOf(x.src), n.f.RouterOf(x.dst); len(n.way(src, dst, dragonfly.AllPaths)) == 0 {
			return fmt.Errorf("the dead links leave no path with one detour from %s to %s", n.f.NodeName(n.f.Hosts()+src),
				n.f.NodeName(n.f.Hosts()+dst))
		}
	}
	return nil
}

// uplink and downlink return the channels of a host's link. It is link number host, and the host is its end A.
func uplink(host int) int32   { return int32(2 * host) }
func downlink(host int) int32 { return int32(2*host + 1) }

// hostLoads returns what a step's flows load the hosts' links with, as times by channel.
func (n *net) hostLoads(flows []flow) []float64 {
	load := make([]float64, len(n.perByte))
	for _, x := range flows {
		for _, c := range []int32{uplink(x.src), downlink(x.dst)} {
			load[c] += float64(x.bytes) * n.perByte[c]
		}
	}
	return load
}

// loads returns what a step loads all links with.
func (n *net) loads(flows []flow, parts []part) []float64 {
	load := n.hostLoads(flows)
	for _, p := range parts {
		for _, c := range p.path {
			load[c] += p.bytes * n.perByte[c]
		}
	}
	return load
}

// problem is a step as package nonminimal takes it. index says which flow of the step each of its flows is.
func (n *net) problem(flows []flow, set dragonfly.Set) (p *nonminimal.Problem, index [][]int) {
	p = &nonminimal.Problem{PerByte: n.perByte, Base: n.hostLoads(flows)}
	demands := map[[2]int]int{}
	var ends [][2]int
	for i, x := range flows {
		src, dst := n.f.RouterOf(x.src), n.f.RouterOf(x.dst)
		if src == dst {
			continue
		}
		key := [2]int{src, dst}
		k, ok := demands[key]
		if !ok {
			k = len(p.Demands)
			demands[key] = k
			ends = append(ends, key)
			var paths [][]int32
			for _, way := range n.way(src, dst, set) {
				paths = append(paths, way.Channels)
			}
			p.Demands = append(p.Demands, nonminimal.Demand{Paths: paths})
			index = append(index, nil)
		}
		p.Demands[k].Sizes = append(p.Demands[k].Sizes, x.bytes)
		index[k] = append(index[k], i)
	}
	p.Distances = func(length []float64) []float64 { return n.distances(ends, length) }
	return p, index
}

// distances returns the lengths of the shortest ways between pairs of routers (Dijkstra 1959, in its form
// without a heap: routers are few and have many links).
func (n *net) distances(ends [][2]int, length []float64) []float64 {
	out := make([]float64, len(ends))
	routers := n.f.Routers()
	from := make([][]float64, routers)
	done := make([]bool, routers)
	for i, e := range ends {
		if from[e[0]] == nil {
			dist := make([]float64, routers)
			for r := range dist {
				dist[r], done[r] = math.Inf(1), false
			}
			dist[e[0]] = 0
			for range routers {
				at := -1
				for r := range dist {
					if !done[r] && (at < 0 || dist[r] < dist[at]) {
						at = r
					}
				}
				done[at] = true
				for _, c := range n.f.Channels(at) {
					if n.dead[int(c/2)] {
						continue
					}
					_, to := n.f.Ends(c)
					to -= n.f.Hosts()
					dist[to] = min(dist[to], dist[at]+length[c])
				}
			}
			from[e[0]] = dist
		}
		out[i] = from[e[0]][e[1]]
	}
	return out
}

// parts returns pieces as parts of a step.
func partsOf(p *nonminimal.Problem, index [][]int, pieces []nonminimal.Piece) []part {
	out := make([]part, 0, len(pieces))
	for _, x := range pieces {
		out = append(out, part{index[x.Demand][x.Flow], p.Demands[x.Demand].Paths[x.Path], float64(x.Bytes)})
	}
	slices.SortStableFunc(out, func(a, b part) int { return cmp.Compare(a.flow, b.flow) })
	return out
}
