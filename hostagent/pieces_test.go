package hostagent

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Pieces are found as in a map, whatever order they end in.
func TestPieces(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var s pieces
	known := map[QP]*piece{}
	last := QP(0)
	for range 20_000 {
		switch r.IntN(3) {
		case 0, 1:
			last += QP(1 + r.IntN(3)*r.IntN(40))
			known[last] = s.add(last)
			known[last].left = int64(last)
		case 2:
			for qp, p := range known { // any
				if s.remove(p); s.get(qp) != nil {
					t.Fatalf("%d is there after its end", qp)
				}
				delete(known, qp)
				if r.IntN(3) > 0 {
					break
				}
			}
		}
		if s.live != len(known) {
			t.Fatalf("%d live of %d", s.live, len(known))
		}
		qp := QP(r.Uint32N(uint32(last) + 100))
		if p := s.get(qp); p != known[qp] || p != nil && (p.qp != qp || p.left != int64(qp) || p.flipped != fabric.LongAgo) {
			t.Fatalf("%d: %+v, want %+v", qp, p, known[qp])
		}
	}
	before := QP(0)
	for p := range s.all() {
		if p.qp <= before || known[p.qp] != p {
			t.Fatalf("%d after %d, known %v", p.qp, before, known[p.qp])
		}
		before = p.qp
		delete(known, p.qp)
	}
	if len(known) > 0 {
		t.Errorf("%d are not listed", len(known))
	}
}

func TestPieceIsACacheLine(t *testing.T) {
	if size := unsafe.Sizeof(piece{}); size > 64 {
		t.Errorf("a piece has %d B", size)
	}
}
