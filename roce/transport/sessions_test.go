package transport

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// TestSessionNumbers: numbers on the wire are a permutation of all but the reserved ones, which depends on the key.
func TestSessionNumbers(t *testing.T) {
	seen := make([]bool, 1<<24)
	s := Session{Key: 12345}
	for q := range uint32(1 << 24) {
		if reservedQPN(q) {
			continue
		}
		w := s.wireNumber(q)
		if w >= 1<<24 || reservedQPN(w) || seen[w] {
			t.Fatalf("number %#x is %#x on the wire, which is reserved or another's", q, w)
		}
		seen[w] = true
	}
	rapid.Check(t, func(t *rapid.T) {
		s := Session{Key: rapid.Uint64().Draw(t, "key")}
		q := rapid.Uint32Range(reservedQPs, 1<<24-2).Draw(t, "number")
		if got := s.numberOf(s.wireNumber(q)); got != q {
			t.Fatalf("number %#x comes back as %#x", q, got)
		}
	})
	same := 0
	for k := range uint64(1000) {
		a, b := Session{Key: k}, Session{Key: k + 1}
		if a.wireNumber(2) == b.wireNumber(2) || a.firstPSN(0, 1, 2) == b.firstPSN(0, 1, 2) {
			same++
		}
	}
	if same > 1 {
		t.Errorf("%d of 1000 neighbouring keys give the same number or first PSN", same)
	}
}

// TestSessionFreesContexts: the state of a peer's queue pairs, of low slots and of high ones, is freed and used again
// when the peer begins anew, and no other peer's is.
func TestSessionFreesContexts(t *testing.T) {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 2, HostsPerToR: 2})
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(Config{Fabric: f, Host: 3, Connect: func(fabric.Time, fabric.NodeID) {}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	arrive := func(src fabric.NodeID) {
		for slot := range uint32(100) {
			q := qpNumber(slot+reservedQPs, 0)
			p := packet{src: src, qpn: q, psn: e.sessions[src].firstPSN(src, 3, q)}
			if e.contextOf(&p) == nil {
				t.Fatalf("the first packet of slot %d is refused", slot)
			}
			p.psn = (p.psn + 1<<22) & psnMask
			if p.qpn = qpNumber(slot+reservedQPs, 1); e.contextOf(&p) != nil {
				t.Fatalf("a packet far from the first of slot %d replaces its state", slot)
			}
		}
	}
	for round := range uint64(5) {
		for src := range fabric.NodeID(2) {
			if round == 0 || src == 0 {
				e.SetSession(0, src, Session{PKey: 0x8001, Key: round + uint64(src)<<32 + 1}, true)
			}
			arrive(src)
		}
		if got := e.Stats().ResponderQPs; got != 200 || e.contexts.len != 200 {
			t.Fatalf("%d contexts, of %d made; expected 200", got, e.contexts.len)
		}
	}
}
