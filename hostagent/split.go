package hostagent

// Cut is one piece of a flow, as [Split] makes it.
type Cut struct {
	Flow   int   // index into the sizes given to Split
	Offset int64 // of the piece in the flow, bytes
	Bytes  int64 // at least 1
	Path   int   // 0 to paths-1
}

// each calls f with a cut in so many parts, of which none is empty.
func (c Cut) each(parts int, f func(Cut)) {
	n, bytes, offset := int64(parts), c.Bytes, c.Offset
	for k := range n {
		from, to := bytes/n*k+bytes%n*k/n, bytes/n*(k+1)+bytes%n*(k+1)/n
		if c.Offset, c.Bytes = offset+from, to-from; c.Bytes > 0 {
			f(c)
		}
	}
}

// Split cuts a batch of flows to one destination ToR into pieces and deals them
// onto its paths. It appends to dst and returns the result. Sizes are in bytes
// and at least 1; paths is at least 1.
//
// # Equal sizes
//
// This is Ethereal's Theorem 1 (arXiv 2407.00550). With n flows of f bytes, s
// paths, r = n mod s and g = gcd(r, s), the first n-r flows go whole to the
// paths, round robin. Each of the last r is cut into m = s/g pieces of
// floor(f/m) bytes, the last piece taking the remainder too, and the pieces
// continue the same round robin. See [Pieces] for how many that makes.
//
// Were bytes divisible, every path would carry exactly n*f/s. Whole bytes cost,
// with e = f mod m: on s-g paths (r/g)*e/m bytes less than that, and on the
// other g, which get every last piece, (r/g)*e*(m-1)/m bytes more. So the
// fullest and emptiest path differ by exactly (r/g)*e, and by less than r*s/g^2
// bytes in any case; when m divides f they do not differ.
//
// A flow of fewer than m bytes makes one piece only: the empty ones are not
// opened.
//
// # Unequal sizes
//
// The theorem says nothing about these, and what Split does is this project's
// own extension (the wrap-around rule of machine scheduling, McNaughton 1959).
// The flows are laid end to end, T bytes in all, and cut where a path is full:
// path k gets bytes floor(k*T/s) to floor((k+1)*T/s). No two paths differ by
// more than one byte, for at most n+s-1 pieces.
func Split(dst []Cut, sizes []int64, paths int) []Cut {
	for _, size := range sizes {
		if size != sizes[0] {
			return wrapAround(dst, sizes, paths)
		}
	}
	return dealEqual(dst, sizes, paths)
}

// Pieces returns how many pieces [Split] makes of n flows of equal size over s
// paths, when they are not smaller than s bytes: (n-r) + r*s/gcd(r, s), where r
// is n mod s.
func Pieces(n, s int) int {
	r := n % s
	if r == 0 {
		return n
	}
	return n - r + r*(s/gcd(r, s))
}

func dealEqual(dst []Cut, sizes []int64, paths int) []Cut {
	n := len(sizes)
	r := n % paths
	for i := range n - r {
		dst = append(dst, Cut{Flow: i, Bytes: sizes[i], Path: i % paths})
	}
	if r == 0 {
		return dst
	}
	m := paths / gcd(r, paths)
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

func wrapAround(dst []Cut, sizes []int64, paths int) []Cut {
	var total int64
	for _, size := range sizes {
		total += size
	}
	s := int64(paths)
	// floor(k*total/s) without overflow.
	boundary := func(k int64) int64 { return total/s*k + total%s*k/s }
	path, at, full := int64(0), int64(0), boundary(1)
	for i, size := range sizes {
		for offset := int64(0); offset < size; {
			for at == full {
				path++
				full = boundary(path + 1)
			}
			n := min(size-offset, full-at)
			dst = append(dst, Cut{Flow: i, Offset: offset, Bytes: n, Path: int(path)})
			offset += n
			at += n
		}
	}
	return dst
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
