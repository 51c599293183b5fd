package hostagent

import "github.com/ethereal-fabric/ethereal/fabric"

// pieceRace compares the paths of one flow's pieces. They begin at the same time and have the same receiver, so a path
// whose piece falls behind is slow. This needs no marks from switches.
type pieceRace struct {
	start        fabric.Time
	pieces, done int32
	// The size and the path's share of the piece that completed the first half of the pieces.
	size, share  uint32
	took         fabric.Time // time until half of the pieces were done; 0: fewer are done
	path         int16       // of that piece
	earliestPath int16       // path of the first finished piece, if its share was below full; otherwise -1
	earlyTook    fabric.Time
}

// newRaces returns races for the flows of a batch, nil if no flow has several pieces.
func (c *Core) newRaces(flows int) []pieceRace {
	if c.cfg.Slow.Off || len(c.cuts) == flows || len(c.usable) < 2 {
		return nil
	}
	races := make([]pieceRace, flows)
	for i := range races {
		races[i] = pieceRace{start: c.now, earliestPath: -1}
	}
	return races
}

func (r *pieceRace) enter(p *piece) {
	r.pieces++
	p.race = r
}

// finished processes the end of a piece.
func (sl *slowPaths) finished(p *piece) {
	r, d := p.race, p.dst
	if r == nil || p.left > 0 {
		return
	}
	path, memory, took := int(p.path), sl.cfg.Slow.Memory, sl.now-r.start
	r.done++
	if r.done == 1 && sl.weight(d, path) < fullRate {
		r.earliestPath, r.earlyTook = p.path, took
	}
	if r.done != (r.pieces+1)/2 {
		return
	}
	r.size, r.share, r.path, r.took = p.size, d.slow.share(path, sl.now, memory), p.path, took
	if r.earliestPath >= 0 && r.earlyTook*5 < took*3 {
		d.slow.raiseShare(int(r.earliestPath), sl.now, memory)
		sl.byUplink.raiseShare(d.uplink(int(r.earliestPath)), sl.now, memory)
	}
}

// judge processes an acknowledgement of a piece after half of its flow's pieces are done. An acknowledgement at
// least a round trip later shows that the path works, since a dead path is not slow. If the path has too much left, it
// is doubted.
func (sl *slowPaths) judge(p *piece) {
	if p.race == nil || p.race.took == 0 || p.left == 0 {
		return
	}
	r, d, path, took := p.race, p.dst, int(p.path), sl.now-p.race.start
	if took < r.took+sl.cfg.Slow.After/slowTrips || r.size == 0 {
		return
	}
	acked, left := float64(p.size)-float64(p.left/sizeUnit), float64(p.left/sizeUnit)
	late := fabric.Time(left * float64(took) / max(1, acked))
	if late < sl.cfg.Slow.After || sl.explainedByShift(d.uplink(path), r.start) {
		return
	}
	is := d.slow.share(path, sl.now, sl.cfg.Slow.Memory)
	found := uint32(float64(r.share) * acked / float64(r.size) * float64(r.took) / float64(took))
	switch last := r.done == r.pieces-1; {
	case found*5 < is*3:
		is = max(found, is/4)
	case !last || late*4 < took:
		return
	}
	p.race = nil
	sl.allocateState(d)
	sl.startCheck(slowCheck{what: pathBehind, d: d, path: path, remainingShare: is}, p.host, int(r.path))
}

// blameUplink applies the result for a path to d to its uplink, if a path to another ToR by the same uplink is slow
// too.
func (sl *slowPaths) blameUplink(d *destination, path int) {
	uplink, memory := d.uplink(path), sl.cfg.Slow.Memory
	found := d.slow.share(path, sl.now, memory)
	for _, o := range sl.destinations {
		if o == d || o.slow == nil {
			continue
		}
		o.eachPath(pathSet{firstUplink: uplink, uplinkCount: 1, aggUplink: -1}, func(q int) {
			if s := o.slow.share(q, sl.now, memory); s < fullShare && (o.aggUplinks == 1 || d.aggUplinks == 1 || q%o.aggUplinks != path%d.aggUplinks) {
				sl.lowerShare(sl.byUplink, uplink, uplink, max(s, found))
			}
		})
	}
}

// raiseShare doubles a path's share.
func (s *slowness) raiseShare(path int, now, memory fabric.Time) {
	if s == nil || s.shares[path].of == 0 {
		return
	}
	s.shares[path] = share{uint8(min(fullShare, 2*s.shares[path].value(now, memory))), now}
}
