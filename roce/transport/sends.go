package transport

import "github.com/ethereal-fabric/ethereal/fabric"

// sentPackets records the times and paths of packets in flight: a ring that grows.
type sentPackets []sentPacket

type sentPacket struct {
	packet int32        // + 1; 0: none
	label  fabric.Label // of its last sending
	at     fabric.Time  // of its last sending
	again  bool         // it was sent more than once, so that the answer may be to any copy
}

// maxSends bounds the ring: of packets beyond it nothing is known.
const maxSends = 1 << 14

func (s *sentPackets) reset() { clear(*s) }

func (s sentPackets) slot(packet int32) *sentPacket { return &s[int(packet)&(len(s)-1)] }

// put records that a packet was sent. Packets below sndUna are no longer needed.
func (s *sentPackets) put(packet int32, now fabric.Time, label fabric.Label, sndUna int32) {
	for {
		if len(*s) > 0 {
			t := s.slot(packet)
			switch {
			case t.packet == packet+1:
				t.at, t.label, t.again = now, label, true
				return
			case t.packet <= sndUna || len(*s) == maxSends:
				*t = sentPacket{packet + 1, label, now, false}
				return
			}
		}
		old := *s
		*s = make(sentPackets, max(8, 2*len(old)))
		for _, t := range old {
			if t.packet > sndUna {
				*s.slot(t.packet - 1) = t
			}
		}
	}
}

// find returns a packet's record, or nil.
func (s sentPackets) find(packet int32) *sentPacket {
	if len(s) == 0 {
		return nil
	}
	if t := s.slot(packet); t.packet == packet+1 {
		return t
	}
	return nil
}

// take returns a packet's record, and forgets it.
func (s sentPackets) take(packet int32) (sentPacket, bool) {
	t := s.find(packet)
	if t == nil {
		return sentPacket{}, false
	}
	was := *t
	t.packet = 0
	return was, true
}

// tripOfPacket returns the time since a packet was sent; 0 if it is unknown.
func (e *Endpoint) tripOfPacket(now fabric.Time, q *qp, packet int32) fabric.Time {
	if !e.keepsSends {
		return 0
	}
	if t := q.state.sentPackets.find(packet); t != nil && !t.again {
		return now - t.at
	}
	return 0
}
