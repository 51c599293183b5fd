package endpoint

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
)

// PathWatcher receives evidence about the paths that QPs take. It may do what a
// [Handler] may.
type PathWatcher interface {
	// Lost reports packets of a QP, or acknowledgements of them, that are known to
	// be lost: a receiver asked for one, or an ACK came without those before it. A
	// time-out is reported to the Handler alone.
	Lost(now fabric.Time, qp QP, l hostagent.Loss)
	// Unanswered reports that nothing is answered of what a QP has sent since a time,
	// though other QPs are answered. It may still be: the QP sends nothing again by
	// itself.
	Unanswered(now fabric.Time, qp QP, l hostagent.Silence)
	// Late reports that an answer came by a path that its QP is not on any more.
	Late(now fabric.Time, peer fabric.NodeID, l fabric.Label)
	// Congested reports that a switch has marked a packet to a peer or, inbound, one
	// from it. It precedes Lost where one packet causes both.
	Congested(now fabric.Time, peer fabric.NodeID, l fabric.Label, inbound bool)
}

// watchMarks notifies the watcher of a packet that reports congestion, or came with CE.
func (e *Endpoint) watchMarks(now fabric.Time, p *packet) {
	if e.cfg.Watcher != nil && (p.becn || p.ce) {
		e.cfg.Watcher.Congested(now, p.src, p.label, p.ce)
	}
}

// lostBy returns what an ACK shows to be lost of a QP that keeps its packets in order. upTo is
// the first packet that it does not acknowledge. Packets of which each asks for an ACK have
// theirs in order: one that acknowledges several comes without those before it. Of packets that
// were retransmitted that says nothing.
func (e *Endpoint) lostBy(q *qp, upTo int32, nak bool) (l hostagent.Loss) {
	l.Since = q.tail.since
	if nak {
		l.Packets = 1
	}
	if e.ask == 1 && q.unacked >= q.once && upTo > q.unacked {
		l.Acks = int(upTo-q.unacked) - 1 + l.Packets
	}
	return l
}
