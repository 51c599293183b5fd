package hostagent

import (
	"cmp"
	"slices"
	"sort"

	"github.com/ethereal-fabric/ethereal/internal/ratio"
)

// Cut is one piece of a flow, as [Split] makes it.
type Cut struct {
	Flow   int   // index into the sizes given to Split
	Offset int64 // first byte of the piece in the flow
	Bytes  int64 // number of bytes of the piece, at least 1
	Path   int   // index of the path, 0 to paths-1
}

// each divides a cut into at most parts nonempty cuts and calls f for each.
func (c Cut) each(parts int, f func(Cut)) {
	n, bytes, offset := int64(parts), c.Bytes, c.Offset
	for k := range n {
		from, to := bytes/n*k+bytes%n*k/n, bytes/n*(k+1)+bytes%n*(k+1)/n
		if c.Offset, c.Bytes = offset+from, to-from; c.Bytes > 0 {
			f(c)
		}
	}
}

// Split cuts a batch of flows to one destination ToR into pieces and deals them onto its paths. It appends to dst
// and returns the result. Sizes are in bytes and at least 1; paths is at least 1.
//
// # Equal sizes
//
// This is Ethereal's Theorem 1 (arXiv 2407.00550). With n flows of f bytes, s paths, r = n mod s and g = gcd(r, s),
// the first n-r flows go whole to the paths, round robin. Each of the last r is cut into m = s/g pieces of
// floor(f/m) bytes, the last piece taking the remainder too, and the pieces continue the same round robin. [Pieces]
// returns their number.
//
// If bytes were divisible, every path would carry exactly n*f/s. With whole bytes and e = f mod m, s-g paths carry
// (r/g)*e/m bytes less, and the other g, which get every last piece, (r/g)*e*(m-1)/m bytes more. So the fullest and
// emptiest path differ by exactly (r/g)*e, and by less than r*s/g^2 bytes in any case; if m divides f they do not
// differ.
//
// A flow of fewer than m bytes makes one piece only: the empty ones are not opened.
//
// # Unequal sizes
//
// The theorem does not cover these. Split uses this project's extension, [SplitFewest] without slack.
func Split(dst []Cut, sizes []int64, paths int) []Cut {
	if !equalSizes(sizes) {
		return SplitFewest(dst, sizes, paths, 0)
	}
	return dealEqual(dst, sizes, paths)
}

func equalSizes(sizes []int64) bool {
	for _, size := range sizes {
		if size != sizes[0] {
			return false
		}
	}
	return true
}

// Pieces returns the number of pieces that [Split] makes of n flows of equal size, at least s bytes, over s paths:
// (n-r) + r*s/gcd(r, s), where r is n mod s.
func Pieces(n, s int) int {
	r := n % s
	if r == 0 {
		return n
	}
	return n - r + r*(s/ratio.GCD(r, s))
}

func dealEqual(dst []Cut, sizes []int64, paths int) []Cut {
	n := len(sizes)
	r := n % paths
	for i := range n - r {
		if sizes[i] > 0 { // a small flow's part in a plane can be empty
			dst = append(dst, Cut{Flow: i, Bytes: sizes[i], Path: i % paths})
		}
	}
	if r == 0 {
		return dst
	}
	m := paths / ratio.GCD(r, paths)
	path := 0 // n-r is a multiple of paths
	for i := n - r; i < n; i++ {
		each := sizes[i] / int64(m)
		for k := range m {
			c := Cut{Flow: i, Offset: int64(k) * each, Bytes: each, Path: path}
			if k == m-1 {
				c.Bytes = sizes[i] - c.Offset
			}
			if c.Bytes > 0 {
				dst = append(dst, c)
			}
			if path++; path == paths {
				path = 0
			}
		}
	}
	return dst
}

// SplitFewest cuts flows of any sizes into few pieces, which need not be equal, such that paths carry equal loads.
// With T bytes in all, a path's share is floor(T/s) or a byte more; it carries at most slack bytes more than its
// share. Without slack any two paths differ by at most a byte. With slack some carry less, in total no more than
// the others carry more.
//
// # How few
//
// Take flows and paths as the nodes of a graph and pieces as its edges. A graph of K parts has n+s-K pieces, and
// each part has flows of as many bytes as its paths' shares. So the fewest pieces need the most parts into which
// the flows can be dealt such that each has a multiple of T/s bytes. For two paths this asks whether some flows are
// half of all bytes (PARTITION); for any number of paths it contains 3-PARTITION: NP-hard, in the strong sense. One
// part always exists: the flows laid end to end and cut where a path is full (McNaughton 1959) make n+s-1 pieces,
// the most that this function makes. If sizes have nothing in common, that is also the minimum. Equal sizes have
// gcd(n, s) parts, which the function finds; [Pieces] is more, (n-r) + r*s/g, the minimum with equal pieces.
//
// The function lets a flow of a share or more fill whole paths and deals its rest with the others, which does not
// change the parts. These go whole, the longest first, to the path with the least sufficient room (best fit
// decreasing). Flows that fit nowhere are laid end to end over the remaining rooms. The result is nearly always the
// optimum: TestFewestAgainstOptimum.
func SplitFewest(dst []Cut, sizes []int64, paths int, slack int64) []Cut {
	var total int64
	for _, size := range sizes {
		total += size
	}
	s := int64(paths)
	rooms := make([]pathRoom, 0, paths) // of paths with any room: ascending
	for k := range s {
		if slack > 0 {
			k = s - 1 // all shares are the larger one
		}
		if left := total/s + (total%s+k)/s; left > 0 {
			rooms = append(rooms, pathRoom{left, len(rooms)})
		}
	}
	return fillRooms(dst, sizes, rooms, slack)
}

// SplitWeighted is [SplitFewest] without slack for paths of unequal rates: a path carries its weight's share of all
// bytes, within a byte. Weights are above 0 and below 2^31.
func SplitWeighted(dst []Cut, sizes []int64, weights []uint32) []Cut {
	var sum, before uint64
	var total, upTo int64
	for _, size := range sizes {
		total += size
	}
	for _, w := range weights {
		sum += uint64(w)
	}
	rooms := make([]pathRoom, 0, len(weights))
	for k, w := range weights {
		before += uint64(w)
		end := scaled(total, before, sum)
		if end > upTo {
			rooms = append(rooms, pathRoom{end - upTo, k})
		}
		upTo = end
	}
	slices.SortStableFunc(rooms, func(a, b pathRoom) int { return cmp.Compare(a.left, b.left) })
	return fillRooms(dst, sizes, rooms, 0)
}

// fillRooms cuts flows into rooms, which are ascending and suffice for all.
func fillRooms(dst []Cut, sizes []int64, rooms []pathRoom, slack int64) []Cut {
	spare := int64(0) // room beyond the need
	for _, r := range rooms {
		spare += r.left
	}
	for _, size := range sizes {
		spare -= size
	}
	// full reports whether a path with that much room left is full enough.
	full := func(left int64) bool {
		if left > min(slack, spare) {
			return false
		}
		spare -= left
		return true
	}
	rests := make([]Cut, 0, len(sizes))
	for i, size := range sizes {
		c := Cut{Flow: i, Bytes: size}
		for c.Bytes > 0 && c.Bytes > rooms[0].left+slack {
			dst = append(dst, c.take(rooms[0].left, rooms[0].path))
			rooms = rooms[1:]
		}
		if c.Bytes > 0 {
			rests = append(rests, c)
		}
	}
	slices.SortStableFunc(rests, func(a, b Cut) int { return cmp.Compare(b.Bytes, a.Bytes) })
	over := rests[:0]
	for _, c := range rests {
		i := firstFit(rooms, c.Bytes-slack)
		if i == len(rooms) {
			over = append(over, c)
			continue
		}
		r := rooms[i]
		rooms = slices.Delete(rooms, i, i+1)
		r.left -= c.Bytes
		dst = append(dst, c.take(c.Bytes, r.path))
		if !full(r.left) {
			rooms = slices.Insert(rooms, firstFit(rooms, r.left), r)
		}
	}
	for _, c := range over {
		for c.Bytes > 0 {
			last := &rooms[len(rooms)-1]
			n := c.Bytes
			if n > last.left+slack {
				n = last.left
			}
			dst = append(dst, c.take(n, last.path))
			if last.left -= n; full(last.left) {
				rooms = rooms[:len(rooms)-1]
			}
		}
	}
	return dst
}

// take cuts bytes off the front of c, for a path.
func (c *Cut) take(bytes int64, path int) Cut {
	piece := Cut{c.Flow, c.Offset, bytes, path}
	c.Offset += bytes
	c.Bytes -= bytes
	return piece
}

// pathRoom is the unused part of a path's share.
type pathRoom struct {
	left int64
	path int
}

// firstFit returns the index of the first of some rooms, ascending, with enough bytes.
func firstFit(rooms []pathRoom, bytes int64) int {
	return sort.Search(len(rooms), func(i int) bool { return rooms[i].left >= bytes })
}
