package endpoint

import "github.com/ethereal-fabric/ethereal/fabric"

// PathWatcher receives evidence about the paths that QPs take. It may do what a
// [Handler] may.
type PathWatcher interface {
	// Lost reports packets of a QP, or acknowledgements of them, that are known to
	// be lost: a receiver asked for one, or an ACK came without those before it. What
	// a time-out reveals is reported to the Handler alone.
	Lost(now fabric.Time, qp QP, packets int)
	// Unanswered reports that neither the last packets of a QP nor the probe behind
	// them are answered. They may still be: the QP sends nothing again by itself.
	// others says that the same peer has answered other QPs' packets sent since; if it
	// has not, other peers have.
	Unanswered(now fabric.Time, qp QP, others bool)
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

// lostBy returns how many packets or ACKs an ACK shows to be lost, of a QP that
// keeps its packets in order. upTo is the first packet that it does not
// acknowledge. Packets of which each asks for an ACK have theirs in order: one that
// acknowledges several comes without those before it. Of packets that were sent
// again that says nothing.
func (e *Endpoint) lostBy(q *qp, upTo int32, nak bool) int {
	lost := 0
	if nak {
		lost = 1
	}
	if e.ask == 1 && q.unacked >= q.once && upTo > q.unacked {
		lost += int(upTo - q.unacked)
		if !nak {
			lost--
		}
	}
	return lost
}
