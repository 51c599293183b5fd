//go:build linux

package device

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/device/uverbs"
	"github.com/ethereal-fabric/ethereal/roce/transport"
)

// maxMessage is the longest message in bytes.
const maxMessage = 1 << 30

// Place accepts, or refuses, the payload of a packet whose key names a stream. It is soft.Config.Place.
func (n *NIC) Place(now fabric.Time, p *transport.Placement, payload []byte) transport.Placing {
	kind, number := parseKey(p.RKey)
	q := n.qps[number]
	if kind == kindDatagrams || kind == kindCM {
		n.placeGram(now, p, kind, q, payload)
		return transport.Placed
	}
	if q == nil || q.typ != qptRC || q.dst != p.Src {
		return transport.Refused
	}
	s := &q.inbound
	if kind == kindResponses {
		s = &q.answers
	} else if kind != kindRequests {
		return transport.Refused
	}
	if !s.open {
		if q.state == uverbs.QPSErr && kind == kindRequests {
			return transport.Invalid
		}
		return transport.Refused
	}
	return s.accept(now, p.Address+uint64(p.Offset), payload)
}

// accept takes bytes of the stream, in any order.
func (s *inStream) accept(now fabric.Time, at uint64, b []byte) transport.Placing {
	off := int64(at - s.next)
	switch {
	case off <= -int64(len(b)):
		return transport.Placed // it came before
	case off > window-int64(len(b)): // off may be anything
		if off < 2*window {
			return transport.Unable
		}
		return transport.Refused
	case off < 0:
		at, b, off = s.next, b[-off:], 0
	}
	if off == 0 && s.stage == nil && !s.blocked {
		k := s.consume(now, b)
		if b = b[k:]; len(b) == 0 {
			return transport.Placed
		}
		at = s.next
	}
	if s.stage == nil {
		if s.stage = s.q.n.newStage(); s.stage == nil {
			return transport.Unable
		}
	}
	if len(s.stage.spans) >= maxSpans && at != s.next {
		return transport.Unable
	}
	s.stage.put(at, b)
	s.drain(now)
	return transport.Placed
}

// drain consumes staged bytes that are next in order.
func (s *inStream) drain(now fabric.Time) {
	for s.open && !s.blocked && s.stage != nil {
		b := s.stage.from(s.next)
		if b == nil {
			break
		}
		s.consume(now, b)
	}
	if s.stage == nil {
		return
	}
	if s.stage.drop(s.next); len(s.stage.spans) == 0 || !s.open {
		s.q.n.freeStage(s.stage)
		s.stage = nil
	}
}

// newStage returns a stage, nil if all are in use.
func (n *NIC) newStage() *stage {
	if n.staged == maxStages {
		return nil
	}
	n.staged++
	if k := len(n.stages); k > 0 {
		g := n.stages[k-1]
		n.stages = n.stages[:k-1]
		return g
	}
	return &stage{}
}

func (n *NIC) freeStage(g *stage) {
	g.spans = g.spans[:0]
	n.staged--
	n.stages = append(n.stages, g)
}

// close ends the stream: bytes that still arrive are refused.
func (s *inStream) close() {
	if s.stage != nil {
		s.q.n.freeStage(s.stage)
	}
	*s = inStream{q: s.q}
}

// beginAt opens the stream.
func (s *inStream) beginAt(psn uint32) { *s = inStream{q: s.q, open: true, next: firstPosition(psn)} }

// inMessage is a message that has not arrived completely.
type inMessage struct {
	header
	left, done uint64
	sges       []sge        // where the data goes
	recv       *recvRequest // which it uses up, if any
	of         *request     // which it answers, if any
}

// consume takes bytes in order, and returns how many: fewer than all if a message
// waits for a receive request.
func (s *inStream) consume(now fabric.Time, b []byte) (n int) {
	for s.open {
		if s.in == nil {
			k := copy(s.head[s.got:], b[n:])
			s.got += k
			s.next += uint64(k)
			n += k
			if s.got < headerSize || !s.begin(now) {
				break
			}
		}
		k := min(s.in.left, uint64(len(b)-n))
		if k > 0 && s.in.sges != nil {
			part := b[n : n+int(k)]
			err := walk(s.in.sges, s.in.done, k, func(addr, m uint64) error {
				err := s.q.c.memory.write(part[:m], addr)
				part = part[m:]
				return err
			})
			if err != nil {
				s.q.memoryFault(now, s.in)
				break
			}
		}
		s.next += k
		n += int(k)
		s.in.left -= k
		s.in.done += k
		if s.in.left > 0 {
			break
		}
		in := s.in
		s.in, s.got = nil, 0
		s.end(now, in)
	}
	if !s.open {
		return len(b)
	}
	return n
}

// begin begins the message whose header has arrived. It returns false if the stream cannot continue.
func (s *inStream) begin(now fabric.Time) bool {
	in := &inMessage{header: parseHeader(s.head[:])}
	in.left = in.data()
	ok := false
	if s == &s.q.answers {
		ok = s.q.beginAnswer(now, in)
	} else {
		ok = s.q.beginRequest(now, in)
	}
	if ok && s.open {
		s.in = in
		return true
	}
	return false
}

// resume continues a stream that waited for a receive request.
func (s *inStream) resume(now fabric.Time) {
	s.blocked = false
	if !s.begin(now) {
		return
	}
	if s.in.left == 0 {
		in := s.in
		s.in, s.got = nil, 0
		s.end(now, in)
	}
	s.drain(now)
}

func (s *inStream) end(now fabric.Time, in *inMessage) {
	if s == &s.q.answers {
		s.q.endAnswer(in)
	} else {
		s.q.endRequest(now, in)
	}
}
