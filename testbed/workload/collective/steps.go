package collective

// In a stepAlgorithm every rank goes through the same steps in order. A rank posts a step's sends when it has
// received everything that the previous step sends it.
type stepAlgorithm interface {
	steps() int
	sends(rank, step int, emit func(dst int, bytes int64))
	// receivesIn returns the number of messages that a rank receives in a step.
	receivesIn(rank, step int) int
	// messageCounts returns the total numbers of messages that a rank receives and sends.
	messageCounts(rank int) (in, out int)
}

// steps makes a plan of a stepAlgorithm.
type steps struct{ stepAlgorithm }

func (s steps) steps() int { return s.stepAlgorithm.steps() }

func (s steps) levels() int               { return s.steps() + 1 }
func (s steps) awaits(step int) int       { return step + 1 }
func (s steps) previous(_, level int) int { return level - 1 }

func (s steps) begin(ranks int) progress {
	p := &stepper{algorithm: s.stepAlgorithm, ranks: make([]position, ranks)}
	for r := range p.ranks {
		p.ranks[r].step = -1
	}
	return p
}

// stepper is the state of every rank.
type stepper struct {
	algorithm stepAlgorithm
	ranks     []position
}

type position struct {
	step int32 // the step whose sends are posted; -1 before the start
	got  int32 // messages received of that step
	// early counts messages of later steps: a neighbour can be ahead.
	early []earlyMessages
}

type earlyMessages struct{ step, got int32 }

func (s *stepper) start(rank int, post func(rank, step int)) {
	if s.ranks[rank].step < 0 {
		s.enter(rank, 0, post)
	}
}

func (s *stepper) received(rank, _, step int, post func(rank, step int)) {
	p := &s.ranks[rank]
	if int32(step) != p.step {
		for i := range p.early {
			if p.early[i].step == int32(step) {
				p.early[i].got++
				return
			}
		}
		p.early = append(p.early, earlyMessages{int32(step), 1})
		return
	}
	p.got++
	if int(p.got) == s.algorithm.receivesIn(rank, step) {
		s.enter(rank, step+1, post)
	}
}

// enter posts a step, and the steps after it as far as the early messages allow.
func (s *stepper) enter(rank, step int, post func(rank, step int)) {
	p := &s.ranks[rank]
	for ; step < s.algorithm.steps(); step++ {
		p.step, p.got = int32(step), 0
		post(rank, step)
		for i := range p.early {
			if p.early[i].step == int32(step) {
				p.got = p.early[i].got
				last := len(p.early) - 1
				p.early[i] = p.early[last]
				p.early = p.early[:last]
				break
			}
		}
		if int(p.got) < s.algorithm.receivesIn(rank, step) {
			return
		}
	}
	p.step = int32(step)
}
