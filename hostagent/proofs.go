package hostagent

import "github.com/ethereal-fabric/ethereal/fabric"

// lossProofs prove losses of which no answer tells. A receiver that takes packets in order asks for a missing one once.
// If that request is lost, or the packet a second time, the queue pair waits for its timer. So if it waits and its path
// answers path probes, a zero-length write is sent behind its packets, in their class and by their path, on a queue
// pair of its own. It cannot overtake them: if it is answered and they are not, they are lost, or their answers are.
// However busy the fabric is, the queue pair need not wait for its timer.
type lossProofs struct {
	*site
	waiting map[QP]fabric.Time // by the queue pair that has probed and got no answer: [Overdue].Since
	probes  map[QP]lossProof   // by the probe's queue pair
	moved   map[QP]struct{}    // queue pairs that have moved since the last proof
}

// lossProof is a probe behind the packets that a queue pair has sent by a path.
type lossProof struct {
	of   QP
	path int16
	sent fabric.Time
}

// probe sends a probe behind the packets of a piece whose answer is overdue since a time.
func (ps *lossProofs) probe(p *piece, since fabric.Time) {
	if ps.probes == nil {
		ps.waiting, ps.probes = map[QP]fabric.Time{}, map[QP]lossProof{}
	}
	ps.waiting[p.qp] = since
	ps.probes[ps.openProbe(hostPath{p.dst, int(p.path), p.host})] = lossProof{p.qp, p.path, ps.now}
	ps.stats.LossProbes++
}

// moves notes that a queue pair moves to another path.
func (ps *lossProofs) moves(qp QP) {
	if ps.moved == nil {
		ps.moved = map[QP]struct{}{}
	}
	ps.moved[qp] = struct{}{}
}

// ends forgets a queue pair.
func (ps *lossProofs) ends(qp QP) {
	ps.endWait(qp)
	delete(ps.moved, qp)
}

// endWait ends the wait of a queue pair.
func (ps *lossProofs) endWait(qp QP) {
	if len(ps.waiting) > 0 {
		delete(ps.waiting, qp)
	}
}

// proofDone processes the answer to a probe. ok is false if qp is none. A queue pair that has lost packets retransmits,
// or leaves its path.
func (c *Core) proofDone(qp QP) (ok bool) {
	ps := &c.proofs
	x, ok := ps.probes[qp]
	if !ok {
		return false
	}
	delete(ps.probes, qp)
	since, waits := ps.waiting[x.of]
	if p := c.pieces.get(x.of); waits && since <= x.sent && p.path == x.path && p.flipped <= x.sent {
		delete(ps.waiting, x.of)
		c.stats.LossesProved++
		c.lossProved(p, since)
	}
	return true
}

// lossProved processes the loss of packets that a queue pair sent after a time. The first loss that is proved after a
// move is no evidence against the path: the packets may have been lost on the one before, if the driver retransmits
// nothing when a queue pair moves.
func (c *Core) lossProved(p *piece, since fabric.Time) {
	s := hostPath{p.dst, int(p.path), p.host}
	_, first := c.proofs.moved[p.qp]
	delete(c.proofs.moved, p.qp)
	if s.d != nil && !c.cfg.Losses.Off && !first && !c.losses.lossExcused(s, since) {
		c.stats.Losses++
		if c.testLoss(s, 1); !s.d.isGood(s.path) {
			return
		}
	}
	c.ready.Resend = append(c.ready.Resend, p.qp)
}

func (ps *lossProofs) rebase(now fabric.Time) {
	for qp, since := range ps.waiting {
		ps.waiting[qp] = since.Rebase(now)
	}
	for qp, x := range ps.probes {
		x.sent = x.sent.Rebase(now)
		ps.probes[qp] = x
	}
}
