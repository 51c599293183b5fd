package flow

// maxHops is the largest number of links of a path, host links included.
const maxHops = 6

// flow is a fluid on a path. Rates are bytes per picosecond, sizes wire bytes.
type flow struct {
	links [maxHops]int32 // link directions
	hops  int8
	bytes float64
	left  float64
	rate  float64
	piece int32
}

// solver computes max-min fair rates: the flows at the fullest link get their rate first, then those at the link
// that is fullest without them, and so on. Its memory is reused.
type solver struct {
	capacity []float64 // by link direction, bytes per picosecond

	left   []float64
	count  []int32 // flows without a rate yet, by link direction
	first  []int32 // index of a direction's flows in member
	member []int32
	used   []int32
	heap   []rankedLink
	fixed  []bool
}

type rankedLink struct {
	share float64
	link  int32
}

// solve sets the rates of the active flows.
func (s *solver) solve(flows []flow, active []int32) {
	n := len(s.capacity)
	if s.left == nil {
		s.left, s.count, s.first = make([]float64, n), make([]int32, n), make([]int32, n+1)
	}
	for _, l := range s.used {
		s.count[l] = 0
	}
	s.used = s.used[:0]
	total := 0
	for _, id := range active {
		f := &flows[id]
		for _, l := range f.links[:f.hops] {
			if s.count[l] == 0 {
				s.used = append(s.used, l)
			}
			s.count[l]++
			total++
		}
	}
	if cap(s.member) < total {
		s.member = make([]int32, total+total/4)
	}
	if len(s.fixed) < len(flows) {
		s.fixed = make([]bool, len(flows)+len(flows)/4)
	}
	at := int32(0)
	s.heap = s.heap[:0]
	for _, l := range s.used {
		s.first[l] = at
		at += s.count[l]
		s.left[l] = s.capacity[l]
		s.push(rankedLink{s.capacity[l] / float64(s.count[l]), l})
		s.count[l] = 0
	}
	for _, id := range active {
		f := &flows[id]
		s.fixed[id] = false
		for _, l := range f.links[:f.hops] {
			s.member[s.first[l]+s.count[l]] = id
			s.count[l]++
		}
	}
	s.shareLinks(flows)
}

// shareLinks processes links in the order of their fair shares. Shares only grow as flows get their rates, so an
// entry of the heap is at worst too small.
func (s *solver) shareLinks(flows []flow) {
	for len(s.heap) > 0 {
		top := s.pop()
		l := top.link
		if s.count[l] == 0 {
			continue
		}
		share := max(s.left[l], 0) / float64(s.count[l])
		if share > top.share*(1+1e-12) && len(s.heap) > 0 && share > s.heap[0].share {
			s.push(rankedLink{share, l})
			continue
		}
		for k := s.first[l]; s.count[l] > 0; k++ {
			id := s.member[k]
			if s.fixed[id] {
				continue
			}
			s.fixed[id] = true
			f := &flows[id]
			f.rate = share
			for _, x := range f.links[:f.hops] {
				s.left[x] -= share
				s.count[x]--
			}
		}
	}
}

func (r rankedLink) before(o rankedLink) bool {
	return r.share < o.share || r.share == o.share && r.link < o.link
}

func (s *solver) push(r rankedLink) {
	h := append(s.heap, r)
	i := len(h) - 1
	for i > 0 {
		p := (i - 1) / 2
		if !r.before(h[p]) {
			break
		}
		h[i] = h[p]
		i = p
	}
	h[i] = r
	s.heap = h
}

func (s *solver) pop() rankedLink {
	h := s.heap
	top := h[0]
	n := len(h) - 1
	r := h[n]
	h = h[:n]
	i := 0
	for 2*i+1 < n {
		c := 2*i + 1
		if c+1 < n && h[c+1].before(h[c]) {
			c++
		}
		if !h[c].before(r) {
			break
		}
		h[i] = h[c]
		i = c
	}
	if n > 0 {
		h[i] = r
	}
	s.heap = h
	return top
}
