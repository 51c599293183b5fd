package nonminimal

import "math"

// Demand is flows between the same two places.
type Demand struct {
	Sizes []int64   // of the flows, bytes
	Paths [][]int32 // channels of each path, at least one path; of equally good ones the first is preferred
}

// Bytes returns the sum of the sizes.
func (d *Demand) Bytes() (sum int64) {
	for _, s := range d.Sizes {
		sum += s
	}
	return sum
}

// Problem is what is to be divided.
type Problem struct {
	PerByte []float64 // of each channel: the time that a byte takes
	Base    []float64 // of each channel: the load it has anyway, as a time; nil: none
	Demands []Demand
	// Distances returns for each demand the length of its shortest way, of all there are, by the
	// given lengths of channels, which count bytes. nil: there are no other ways than the demands' paths.
	Distances func(length []float64) []float64
}

// Balance is an answer: how many bytes of each demand go by each of its paths.
type Balance struct {
	Shares [][]float64 // bytes, by demand and path
	Load   []float64   // by channel, a time
	Max    float64     // the greatest load
	Bound  float64     // no division has a lower greatest load
	Rounds int

	p *Problem
}

// Gap is how far above its proven bound the answer is, as a share of the bound.
func (b *Balance) Gap() float64 {
	if b.Bound <= 0 {
		return 0
	}
	return b.Max/b.Bound - 1
}

// softest to hardest: mu as a share of the greatest load.
var softness = []float64{0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0005}

const (
	proveEach  = 8
	roundsEach = 400  // at one softness
	faint      = 1e-7 // what a channel without load weighs, so that of two paths the shorter is preferred
)

// Balance solves the problem to within gap of its bound, or as near as it gets.
func (p *Problem) Balance(gap float64) *Balance {
	b := &Balance{p: p, Load: make([]float64, len(p.PerByte)), Shares: make([][]float64, len(p.Demands))}
	copy(b.Load, p.Base)
	for i := range p.Demands {
		d := &p.Demands[i]
		b.Shares[i] = make([]float64, len(d.Paths))
		b.Shares[i][0] = float64(d.Bytes())
		b.add(d.Paths[0], b.Shares[i][0])
	}
	s := &softMax{b: b, weight: make([]float64, len(b.Load))}
	s.refresh(softness[0])
	best := b.Max
	kept := b.clone()
	for _, soft := range softness {
		stuck := 0
		for range roundsEach {
			b.Rounds++
			s.refresh(soft)
			s.sweep()
			s.refresh(soft)
			if b.Rounds%proveEach == 0 { // it costs more than a sweep does where ways are many
				s.prove()
			}
			if b.Max < best*(1-1e-4) {
				stuck = 0
			} else {
				stuck++
			}
			if b.Max < best {
				best, kept = b.Max, b.clone()
			}
			if best <= b.Bound*(1+gap) || stuck > 40 {
				break
			}
		}
		if best <= b.Bound*(1+gap) {
			break
		}
	}
	kept.Bound, kept.Rounds = b.Bound, b.Rounds
	return kept
}

func (b *Balance) clone() *Balance {
	c := &Balance{Max: b.Max, p: b.p, Load: append([]float64(nil), b.Load...), Shares: make([][]float64, len(b.Shares))}
	for i := range b.Shares {
		c.Shares[i] = append([]float64(nil), b.Shares[i]...)
	}
	return c
}

func (b *Balance) add(path []int32, bytes float64) {
	for _, c := range path {
		b.Load[c] += bytes * b.p.PerByte[c]
	}
}

// softMax moves bytes.
type softMax struct {
	b       *Balance
	mu, top float64
	weight  []float64 // of each channel: the derivative of the soft maximum by its load, but for a factor
	cost    []float64
}

func (s *softMax) refresh(soft float64) {
	s.top = 0
	for _, l := range s.b.Load {
		s.top = max(s.top, l)
	}
	s.b.Max, s.mu = s.top, soft*s.top
	for c := range s.weight {
		s.weigh(int32(c))
	}
}

func (s *softMax) weigh(c int32) {
	s.weight[c] = math.Exp(min((s.b.Load[c]-s.top)/s.mu, 40)) + faint
}

func (s *softMax) length(path []int32) (sum float64) {
	for _, c := range path {
		sum += s.weight[c] * s.b.p.PerByte[c]
	}
	return sum
}

// sweep improves each demand in turn.
func (s *softMax) sweep() {
	for i := range s.b.p.Demands {
		paths, shares := s.b.p.Demands[i].Paths, s.b.Shares[i]
		if len(paths) == 1 {
			continue
		}
		s.cost = s.cost[:0]
		cheapest := 0
		for k := range paths {
			s.cost = append(s.cost, s.length(paths[k]))
			if s.cost[k] < s.cost[cheapest]*(1-1e-12) {
				cheapest = k
			}
		}
		for k := range paths {
			if k == cheapest || shares[k] == 0 {
				continue
			}
			much := s.step(paths[k], paths[cheapest], shares[k])
			if much <= 0 {
				continue
			}
			if much > shares[k]*(1-1e-9) {
				much = shares[k]
			}
			shares[k] -= much
			shares[cheapest] += much
			s.move(paths[k], -much)
			s.move(paths[cheapest], much)
		}
	}
}

// step is how many bytes are to move from one path to another: by Newton's method, along this direction alone.
func (s *softMax) step(from, to []int32, most float64) float64 {
	slope, bend := 0.0, 0.0
	for _, c := range from {
		t := s.b.p.PerByte[c]
		slope += t * s.weight[c]
		bend += t * t * s.weight[c]
	}
	for _, c := range to {
		t := s.b.p.PerByte[c]
		slope -= t * s.weight[c]
		bend += t * t * s.weight[c]
	}
	if slope <= 0 || bend <= 0 {
		return 0
	}
	return min(most, s.mu*slope/bend)
}

func (s *softMax) move(path []int32, bytes float64) {
	for _, c := range path {
		s.b.Load[c] = max(s.b.Load[c]+bytes*s.b.p.PerByte[c], 0)
		s.weigh(c)
	}
}

// prove raises the bound to what the weights prove: each byte pays at least its shortest path's length, and
// all pay no more than the greatest load times all weights.
func (s *softMax) prove() {
	p := s.b.p
	total, paid := 0.0, 0.0
	for c, w := range s.weight {
		total += w
		if p.Base != nil {
			paid += w * p.Base[c]
		}
	}
	var shortest []float64
	if p.Distances != nil {
		lengths := make([]float64, len(s.weight))
		for c, w := range s.weight {
			lengths[c] = w * p.PerByte[c]
		}
		shortest = p.Distances(lengths)
	}
	for i := range p.Demands {
		d := &p.Demands[i]
		var least float64
		if shortest != nil {
			least = shortest[i]
		} else {
			least = math.Inf(1)
			for _, path := range d.Paths {
				least = min(least, s.length(path))
			}
		}
		paid += least * float64(d.Bytes())
	}
	s.b.Bound = max(s.b.Bound, paid/total)
}
