package hostagent

import (
	"iter"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// piece is an open queue pair. It fits one cache line of 64 B: every acknowledgement reads one, and a host can have
// thousands.
type piece struct {
	qp         QP // 0: none
	host       fabric.NodeID
	home, path int16
	size       uint32       // in units of sizeUnit, saturated
	dst        *destination // nil under the own ToR
	race       *pieceRace   // nil: no other piece of its flow takes another path
	left       int64        // bytes not acknowledged
	flipped    fabric.Time  // LongAgo: never
	prev, next *piece       // of dst, in order of opening
}

const sizeUnit = 256 // number of bytes that one unit of a piece's stored size stands for

// pageBits is the log2 of the pieces of a page.
const pageBits = 5

// page is 32 pieces with consecutive numbers: 2 KiB.
type page [1 << pageBits]piece

// pieces are the open queue pairs. Their numbers rise and are never reused, so they are found by index: in pages,
// from the oldest with an open queue pair to the latest. A page without open ones is reused; a page that stays open
// costs 16 B for every page after it.
type pieces struct {
	pages []pageInUse // from number first<<pageBits up
	first QP
	live  int
	free  []*page
}

type pageInUse struct {
	*page     // nil: all done
	live  int // open pieces of the page
}

// get returns an open queue pair, or nil.
func (s *pieces) get(qp QP) *piece {
	i := uint(qp>>pageBits) - uint(s.first)
	if i >= uint(len(s.pages)) || s.pages[i].page == nil {
		return nil
	}
	if p := &s.pages[i].page[qp%(1<<pageBits)]; p.qp != 0 {
		return p
	}
	return nil
}

// add opens a queue pair with a number above all earlier ones.
func (s *pieces) add(qp QP) *piece {
	at := qp >> pageBits
	if len(s.pages) == 0 {
		s.first = at
	}
	for s.first+QP(len(s.pages)) <= at {
		s.pages = append(s.pages, pageInUse{})
	}
	in := &s.pages[at-s.first]
	if in.page == nil {
		if n := len(s.free); n > 0 {
			in.page, s.free = s.free[n-1], s.free[:n-1]
		} else {
			in.page = new(page)
		}
	}
	s.live++
	in.live++
	p := &in.page[qp%(1<<pageBits)]
	p.qp, p.flipped = qp, fabric.LongAgo
	return p
}

// remove removes an open queue pair.
func (s *pieces) remove(p *piece) {
	in := &s.pages[p.qp>>pageBits-s.first]
	*p = piece{}
	s.live--
	if in.live--; in.live > 0 {
		return
	}
	s.free = append(s.free, in.page)
	in.page = nil
	done := 0
	for done < len(s.pages) && s.pages[done].page == nil {
		done++
	}
	s.first += QP(done)
	s.pages = s.pages[done:]
}

// all yields the open queue pairs in the order of their numbers.
func (s *pieces) all() iter.Seq[*piece] {
	return func(yield func(*piece) bool) {
		for _, in := range s.pages {
			if in.page == nil {
				continue
			}
			for i := range in.page {
				if in.page[i].qp != 0 && !yield(&in.page[i]) {
					return
				}
			}
		}
	}
}

func (s *pieces) rebase(now fabric.Time) {
	races := map[*pieceRace]bool{} // pieces of a flow share one
	for p := range s.all() {
		p.flipped = p.flipped.Rebase(now)
		if r := p.race; r != nil && !races[r] {
			races[r], r.start = true, r.start.Rebase(now)
		}
	}
}
