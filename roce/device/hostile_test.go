//go:build linux

package device

import (
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/device/uverbs"
	"github.com/ethereal-fabric/ethereal/roce/transport"
)

// TestPools: a program that makes all the queues, channels, regions and windows that it can leaves some of each to
// others, and what it had is free when it has ended.
func TestPools(t *testing.T) {
	w := newWire(t)
	hog, other := w.program(0, nil, 7), w.program(0, nil, 7)
	n := w.nics[0]
	hog.c.share, other.c.share = 1, 2
	// Their objects so far are of no process.
	free := sharePools{mappings: sharePool{most: 12}, descriptors: sharePool{most: 12}, regions: sharePool{most: 12}, windows: sharePool{most: 12}}
	n.pools = free
	all := func(p *program, op callOp, args ...uint64) (made int) {
		for range 100 {
			if _, err := p.try(op, args...); err != nil {
				return made
			}
			made++
		}
		return made
	}
	for name, make := range map[string]func(p *program) int{
		"completion queues":   func(p *program) int { return all(p, opCreateCQ, 1) },
		"completion channels": func(p *program) int { return all(p, opCreateChannel) },
		"memory regions":      func(p *program) int { return all(p, opRegMR, uint64(p.h[0]), 0, 4096, 1, 0) },
		"memory windows":      func(p *program) int { return all(p, opAllocMW, uint64(p.h[0]), windowType1) },
	} {
		if first, second := make(hog), make(other); first != 6 || second != 3 {
			t.Errorf("of 12 %s the first program has %d, the second %d; want half, and half of what is left", name, first, second)
		}
	}
	hog.c.cqs[hog.h[1]].users = 0 // its queue pair is not of the pool
	for _, p := range []*program{hog, other} {
		delete(p.c.qps, p.h[2])
		delete(p.c.cqs, p.h[1])
		delete(p.c.regions, p.key)
		p.c.close(w.now)
	}
	for _, p := range []sharePool{n.pools.mappings, n.pools.descriptors, n.pools.regions, n.pools.windows} {
		if p.used != 0 || len(p.by) != 0 {
			t.Errorf("after the programs' end %d are in use, by %v", p.used, p.by)
		}
	}
}

// TestUnreadAnswers: a host that asks and asks, and acknowledges no answer, does not fill the other one's memory: the
// queue pair ends.
func TestUnreadAnswers(t *testing.T) {
	w, p := pairOf(t, 7)
	q := p[1].q
	h := header{op: wrFetchAdd, rkey: p[1].key, addr: 64}
	ask, at := h.append(nil), firstPosition(5)
	for range 2 * maxAnswers {
		w.nics[1].Place(w.now, &transport.Placement{
			Src: 0, RKey: streamKey(kindRequests, q.number), Address: at, Length: headerSize, Payload: headerSize, Last: true,
		}, ask)
		at += headerSize
		w.cargo = nil // no answer arrives
		if n := len(q.responses.segs); n > maxAnswers+4 {
			t.Fatalf("%d parts of answers are kept", n)
		}
	}
	if q.state != uverbs.QPSErr {
		t.Errorf("the queue pair is in state %d, want it to have failed", q.state)
	}
}

// TestScattered: a host that sends every other byte of a stream makes no search long, and the stream goes on when the
// others come.
func TestScattered(t *testing.T) {
	w, p := pairOf(t, 7)
	q, from := p[1].q, firstPosition(5)
	h := header{op: wrWrite, rkey: p[1].key, addr: 0, length: mapWindow / 2}
	text := append(h.append(nil), make([]byte, h.length)...)
	for i := range text[headerSize:] {
		text[headerSize+i] = byte(i%251 + 1)
	}
	place := func(i, n int) transport.Placing {
		return w.nics[1].Place(w.now, &transport.Placement{
			Src: 0, RKey: streamKey(kindRequests, q.number), Address: from + uint64(i), Length: int64(n), Payload: n, Last: true,
		}, text[i:i+n])
	}
	refused := 0
	for i := len(text) - 1; i > 0; i -= 2 {
		if place(i, 1) == transport.Unable {
			refused++
		}
	}
	if n := len(q.inbound.stage.spans); n > maxSpans || refused == 0 {
		t.Fatalf("%d pieces are kept, %d were refused", n, refused)
	}
	for i := 0; i < len(text); i += 1024 {
		if got := place(i, min(1024, len(text)-i)); got != transport.Placed {
			t.Fatalf("what comes in order is not taken: %v", got)
		}
	}
	w.run(fabric.Millisecond)
	for i := range int(h.length) {
		if p[1].memory[i] != byte(i%251+1) {
			t.Fatalf("byte %d of the message is %d", i, p[1].memory[i])
		}
	}
}
