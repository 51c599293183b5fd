//go:build linux

package device

import (
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/device/uverbs"
	"github.com/ethereal-fabric/ethereal/roce/transport"
)

// maxMessage is the longest message in bytes.
const maxMessage = 1 << 30

// Place writes the payload of a received packet into the program's memory that the packet's key names, or refuses it.
// It is the [soft.Config].Place of the host's engine.
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
	case off > mapWindow-int64(len(b)): // off may be anything
		if off < 2*mapWindow {
			return transport.Unable
		}
		return transport.Refused
	case off < 0:
		at, b, off = s.next, b[-off:], 0
	}
	if off == 0 && s.stage == nil && !s.blocked && !s.waits {
		k := s.consumeBytes(now, b)
		if b = b[k:]; len(b) == 0 {
			return transport.Placed
		}
		at = s.next
	}
	if s.stage == nil {
		if s.stage = s.q.n.newStage(s.q.c.share); s.stage == nil {
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
	for s.open && !s.blocked && !s.waits && s.stage != nil {
		b := s.stage.bytesFrom(s.next)
		if b == nil {
			break
		}
		s.consumeBytes(now, b)
	}
	if s.stage == nil {
		return
	}
	if s.stage.drop(s.next); len(s.stage.spans) == 0 || !s.open {
		s.freeStage()
	}
}

// newStage returns a stage for a process, nil if it may have no more.
func (n *NIC) newStage(share uint16) *stagedBytes {
	if !n.pools.stages.take(share) {
		return nil
	}
	if k := len(n.stages); k > 0 {
		g := n.stages[k-1]
		n.stages = n.stages[:k-1]
		return g
	}
	return &stagedBytes{}
}

func (s *inStream) freeStage() {
	s.stage.spans = s.stage.spans[:0]
	n := s.q.n
	n.pools.stages.giveBack(s.q.c.share)
	n.stages = append(n.stages, s.stage)
	s.stage = nil
}

// close ends the stream: bytes that still arrive are refused.
func (s *inStream) close() {
	if s.stage != nil {
		s.freeStage()
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
	answer     func()       // sends the result of an atomic; nil: it is none
}

// consumeBytes processes stream bytes in order, and returns how many: fewer than all if a message waits for a receive
// request.
func (s *inStream) consumeBytes(now fabric.Time, b []byte) (n int) {
	for s.open {
		if s.in == nil {
			k := copy(s.head[s.got:], b[n:])
			s.got += k
			s.next += uint64(k)
			n += k
			if s.got < headerSize || !s.beginMessage(now) {
				break
			}
		}
		k := min(s.in.left, uint64(len(b)-n))
		if k > 0 && s.in.sges != nil && !s.write(now, b[n:n+int(k)]) {
			break
		}
		s.next += k
		n += int(k)
		s.in.left -= k
		s.in.done += k
		if s.in.left > 0 || s.waits {
			break
		}
		s.finishMessages(now)
	}
	if !s.open {
		return len(b)
	}
	return n
}

// write writes the message's next bytes to the program's memory. It reports false if that is gone.
func (s *inStream) write(now fabric.Time, b []byte) bool {
	in, c, off := s.in, s.q.c, s.in.done
	if c.readsByThread(now, in.sges) {
		b = slices.Clone(b)
	}
	return s.runAccess(now, in, func() error { return c.memory.writeTo(in.sges, off, b) }, func() { s.q.memoryFault(now, in) })
}

// runAccess makes an access to the program's memory for a message, or has it made: then the stream waits. It reports
// whether it has not failed. fault is called if it fails.
func (s *inStream) runAccess(now fabric.Time, in *inMessage, do func() error, fault func()) bool {
	c := s.q.c
	if !c.accessesInGoroutines() {
		err := do()
		if err != nil {
			fault()
		}
		return err == nil
	}
	s.in, s.waits = in, true
	c.queueAccess(&c.accesses.stores, access{
		wanted: func() bool { return s.waits && s.in == in },
		do:     do,
		done: func(now fabric.Time, err error) {
			if s.waits = false; err != nil {
				fault()
				return
			}
			if in.left == 0 {
				s.finishMessages(now)
			}
			s.drain(now)
		},
	})
	return true
}

// finishMessages ends the message, all of which has arrived.
func (s *inStream) finishMessages(now fabric.Time) {
	in := s.in
	s.in, s.got = nil, 0
	s.endMessage(now, in)
}

// beginMessage begins the message whose header has arrived. It returns false if the stream cannot continue.
func (s *inStream) beginMessage(now fabric.Time) bool {
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
	if !s.beginMessage(now) {
		return
	}
	if s.in.left == 0 && !s.waits {
		s.finishMessages(now)
	}
	s.drain(now)
}

func (s *inStream) endMessage(now fabric.Time, in *inMessage) {
	if s == &s.q.answers {
		s.q.endAnswer(in)
	} else {
		s.q.endRequest(now, in)
	}
}
