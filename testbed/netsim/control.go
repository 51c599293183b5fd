package netsim

import "github.com/ethereal-fabric/ethereal/fabric"

// control is a function of the world's that is to run at a time.
type control struct {
	at       fabric.Time
	sequence uint32 // in which it was scheduled
	f        func(fabric.Time)
}

func (c *control) before(o *control) bool {
	return c.at < o.at || c.at == o.at && c.sequence < o.sequence
}

// controls is a heap of them, the next one first.
type controls []*control

func (h *controls) push(c *control) {
	s := append(*h, c)
	*h = s
	i := len(s) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !c.before(s[parent]) {
			break
		}
		s[i] = s[parent]
		i = parent
	}
	s[i] = c
}

func (h *controls) pop() *control {
	s := *h
	top, last := s[0], len(s)-1
	c := s[last]
	s[last] = nil
	s = s[:last]
	*h = s
	if last == 0 {
		return top
	}
	i := 0
	for {
		child := 2*i + 1
		if child >= last {
			break
		}
		if child+1 < last && s[child+1].before(s[child]) {
			child++
		}
		if !s[child].before(c) {
			break
		}
		s[i] = s[child]
		i = child
	}
	s[i] = c
	return top
}
