package nonminimal

import (
	"cmp"
	"math"
	"slices"
)

// Piece is a part of a flow on a path.
type Piece struct {
	Demand, Flow, Path int32 // indexes into the problem's demands, a demand's sizes and its paths
	Bytes              int64
}

// leastPart is the smallest part of a flow that is cut off it on purpose.
const leastPart = 1.0 / 64

// Deal turns the division into pieces, of which it makes few: no channel is to have more than the
// division's greatest load and a share slack of it, but for a byte of each piece that crosses it: bytes
// are whole. Pieces are in the order of demands, of flows, and of paths.
func (b *Balance) Deal(slack float64) []Piece {
	d := &dealer{b: b, load: slices.Clone(b.Load), most: b.Max * (1 + slack), pieces: make([][]Piece, len(b.p.Demands))}
	order := make([]int, len(b.p.Demands))
	for i := range order {
		order[i] = i
	}
	// The longest flows first: what is small finds a place in the end.
	longest := func(i int) int64 { return slices.Max(b.p.Demands[i].Sizes) }
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(longest(y), longest(x)) })
	for _, i := range order {
		for k, bytes := range b.Shares[i] {
			d.add(b.p.Demands[i].Paths[k], -bytes)
		}
		d.pieces[i] = d.deal(i, b.Shares[i])
	}
	for range 3 { // with the others where they are now
		if !d.again(order) {
			break
		}
	}
	var out []Piece
	for i := range d.pieces {
		slices.SortFunc(d.pieces[i], func(x, y Piece) int {
			return cmp.Or(cmp.Compare(x.Flow, y.Flow), cmp.Compare(x.Path, y.Path))
		})
		out = append(out, d.pieces[i]...)
	}
	return out
}

// Loads returns what the channels have to carry, as times, by pieces.
func (p *Problem) Loads(pieces []Piece) []float64 {
	load := make([]float64, len(p.PerByte))
	copy(load, p.Base)
	for _, x := range pieces {
		for _, c := range p.Demands[x.Demand].Paths[x.Path] {
			load[c] += float64(x.Bytes) * p.PerByte[c]
		}
	}
	return load
}

type dealer struct {
	b      *Balance
	load   []float64
	most   float64
	pieces [][]Piece // by demand
}

func (d *dealer) add(path []int32, bytes float64) {
	for _, c := range path {
		d.load[c] += bytes * d.b.p.PerByte[c]
	}
}

// room is how many more bytes a path can have.
func (d *dealer) room(path []int32) float64 {
	least := math.Inf(1)
	for _, c := range path {
		least = min(least, (d.most*(1+1e-9)-d.load[c])/d.b.p.PerByte[c])
	}
	return least
}

// thin moves a demand's shares, the smallest first, to others of its paths that have shares and room: the program
// spreads bytes over all paths that are nearly as good, and each share may cost a cut.
func (d *dealer) thin(i int, shares []float64) []float64 {
	demand, out := &d.b.p.Demands[i], slices.Clone(shares)
	used := make([]int, 0, len(out))
	for k, s := range out {
		if s > 0 {
			used = append(used, k)
		}
	}
	slices.SortStableFunc(used, func(x, y int) int { return cmp.Compare(out[x], out[y]) })
	for _, k := range used {
		d.add(demand.Paths[k], out[k])
	}
	for n, k := range used {
		bytes := out[k]
		d.add(demand.Paths[k], -bytes)
		for _, to := range slices.Backward(used[n+1:]) {
			if d.room(demand.Paths[to]) >= bytes {
				d.add(demand.Paths[to], bytes)
				out[k], out[to], bytes = 0, out[to]+bytes, 0
				break
			}
		}
		d.add(demand.Paths[k], bytes)
	}
	for _, k := range used {
		d.add(demand.Paths[k], -out[k])
	}
	return out
}

// again deals anew the demands that have flows in parts, and keeps what has fewer.
func (d *dealer) again(order []int) (better bool) {
	for _, i := range order {
		old := d.pieces[i]
		demand := &d.b.p.Demands[i]
		if len(old) == len(demand.Sizes) {
			continue
		}
		shares := make([]float64, len(demand.Paths))
		for _, x := range old {
			shares[x.Path] += float64(x.Bytes)
			d.add(demand.Paths[x.Path], -float64(x.Bytes))
		}
		pieces := d.deal(i, shares)
		if len(pieces) < len(old) {
			d.pieces[i], better = pieces, true
			continue
		}
		for _, x := range pieces {
			d.add(demand.Paths[x.Path], -float64(x.Bytes))
		}
		for _, x := range old {
			d.add(demand.Paths[x.Path], float64(x.Bytes))
		}
	}
	return better
}

// deal places the flows of a demand that has none. shares are what its paths had, and have room for.
func (d *dealer) deal(i int, shares []float64) []Piece {
	out, ok := d.greedy(i, shares)
	if !ok {
		for _, x := range out {
			d.add(d.b.p.Demands[i].Paths[x.Path], -float64(x.Bytes))
		}
		out = d.endToEnd(i, d.thin(i, shares))
	}
	return merged(out)
}

// greedy places whole flows, the longest first, and cuts what fits nowhere whole where its path is full. ok is
// false if something found no room: paths share channels, so that one that took much can leave others with too little.
func (d *dealer) greedy(i int, shares []float64) (out []Piece, ok bool) {
	demand := &d.b.p.Demands[i]
	left := slices.Clone(shares)
	for _, flow := range longestFirst(demand.Sizes) {
		size := demand.Sizes[flow]
		for rest := size; rest > 0; {
			k, n := d.whole(demand, left, float64(rest)), rest
			if k < 0 {
				var bytes float64
				if k, bytes = d.part(demand, left, float64(rest)); bytes < leastPart*float64(size) {
					return out, false
				}
				n = min(rest, int64(math.Ceil(bytes)))
			}
			out = append(out, Piece{int32(i), int32(flow), int32(k), n})
			d.add(demand.Paths[k], float64(n))
			left[k] = max(left[k]-float64(n), 0)
			rest -= n
		}
	}
	return out, true
}

// endToEnd lays flows end to end over the paths' shares and cuts them where a share ends (McNaughton 1959): one cut
// less than there are shares, at most. It loads each path as before, but for whole bytes.
func (d *dealer) endToEnd(i int, shares []float64) (out []Piece) {
	demand := &d.b.p.Demands[i]
	paths := make([]int, 0, len(shares))
	for k, s := range shares {
		if s >= 1 {
			paths = append(paths, k)
		}
	}
	slices.SortStableFunc(paths, func(x, y int) int { return cmp.Compare(shares[y], shares[x]) })
	if len(paths) == 0 {
		paths = []int{0}
	}
	at, left := 0, shares[paths[0]]
	for _, flow := range longestFirst(demand.Sizes) {
		for rest := demand.Sizes[flow]; rest > 0; {
			n := rest
			if at < len(paths)-1 {
				n = min(rest, max(int64(math.Round(left)), 1))
			}
			out = append(out, Piece{int32(i), int32(flow), int32(paths[at]), n})
			d.add(demand.Paths[paths[at]], float64(n))
			rest -= n
			if left -= float64(n); left < 1 && at < len(paths)-1 {
				at++
				left += shares[paths[at]]
			}
		}
	}
	return out
}

func longestFirst(sizes []int64) []int {
	flows := make([]int, len(sizes))
	for k := range flows {
		flows[k] = k
	}
	slices.SortStableFunc(flows, func(x, y int) int { return cmp.Compare(sizes[y], sizes[x]) })
	return flows
}

// whole returns the path for a flow that is not cut; -1: there is none. It is one that the division
// uses, the more the better, or else the first, hence the shortest, with room.
func (d *dealer) whole(demand *Demand, left []float64, bytes float64) int {
	best := -1
	for k := range demand.Paths {
		if left[k] >= 1 && (best < 0 || left[k] > left[best]) && d.room(demand.Paths[k]) >= bytes {
			best = k
		}
	}
	if best >= 0 {
		return best
	}
	for k := range demand.Paths {
		if d.room(demand.Paths[k]) >= bytes {
			return k
		}
	}
	return -1
}

// part returns the path with the most room, and how many bytes of a flow it takes.
func (d *dealer) part(demand *Demand, left []float64, bytes float64) (path int, much float64) {
	for k := range demand.Paths {
		room := min(d.room(demand.Paths[k]), bytes)
		if room > much*(1+1e-9) {
			path, much = k, room
		}
	}
	return path, much
}

// merged joins parts of a flow on one path.
func merged(pieces []Piece) []Piece {
	out := pieces[:0]
	for _, x := range pieces {
		if k := slices.IndexFunc(out, func(y Piece) bool { return x.Flow == y.Flow && x.Path == y.Path }); k >= 0 {
			out[k].Bytes += x.Bytes
			continue
		}
		out = append(out, x)
	}
	return out
}
