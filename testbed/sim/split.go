package sim

import (
	"math"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// assignRegions says which region each node belongs to, for so many regions at most.
// Each tier is cut into as many runs of neighbours, a host goes with its ToR: so
// pods stay whole where their number allows, and what crosses is half of the
// links above.
func assignRegions(f *fabric.Fabric, count int) (owner []uint8, regions int) {
	tors := 0
	perTier := map[fabric.Tier]int{}
	for i := range f.Switches() {
		perTier[f.Node(fabric.NodeID(f.Hosts()+i)).Tier]++
	}
	tors = perTier[fabric.ToR]
	regions = max(1, min(count, tors, maxRegions))
	owner = make([]uint8, f.Nodes())
	for i := range f.Switches() {
		n := f.Node(fabric.NodeID(f.Hosts() + i))
		owner[n.ID] = uint8(n.Index * regions / perTier[n.Tier])
	}
	for h := range f.Hosts() {
		owner[h] = owner[f.ToROf(fabric.NodeID(h))]
	}
	return owner, regions
}

// maxRegions bounds [Config.Regions].
const maxRegions = 64

// hostsPerRegion is how many hosts a region has where it pays to have several: they
// and their share of switches are about what fits a core's second cache.
const hostsPerRegion = 16

// PayingRegions returns the number of regions with which a fabric is simulated fastest, also on one core. With several
// regions the rules of [Config].Regions apply.
func PayingRegions(f *fabric.Fabric) int {
	return max(1, f.Hosts()/hostsPerRegion)
}

// lookahead is the least time in which one region can affect another: the
// propagation of the shortest link between two.
func lookahead(f *fabric.Fabric, owner []uint8) fabric.Time {
	least := fabric.Time(math.MaxInt64)
	for i := range f.Links() {
		l := f.Link(fabric.LinkID(i))
		if owner[l.A.Node] != owner[l.B.Node] {
			least = min(least, l.Delay)
		}
	}
	return least
}

// crossing is a packet on its way from one region to another, which another core may
// simulate.
type crossing struct {
	at      fabric.Time // of its arrival
	dir     LinkDir
	length  int32
	payload int32
	header  uint8
	class   uint8
	is      packetState
	pause   uint8
	data    [MaxHeader]byte
}

// cross passes a packet on the wire to the region at the far end.
func (r *region) cross(far *region, dir LinkDir, id packetID, p *packet) {
	if far.pool == r.pool { // on one core; it arrives after the window
		far.fly(dir, id, p)
		return
	}
	if r.concurrent {
		out := &r.crossings[r.net.parity][far.index]
		if len(*out) < cap(*out) {
			*out = (*out)[:len(*out)+1]
		} else {
			*out = append(*out, crossing{})
		}
		c := &(*out)[len(*out)-1]
		c.at, c.dir, c.length, c.payload, c.header, c.class, c.pause, c.is = p.at, dir, p.length, p.payload, p.header, p.class, p.pause, p.is
		copy(c.data[:], p.data[:p.header])
		r.firstCrossing = min(r.firstCrossing, p.at)
	} else {
		to, q := far.pool.get()
		q.at, q.length, q.payload, q.header, q.class, q.pause, q.is = p.at, p.length, p.payload, p.header, p.class, p.pause, p.is
		copy(q.data[:], p.data[:p.header])
		far.fly(dir, to, q)
	}
	r.pool.put(id)
}

// receiveCrossings receives the packets that other regions sent in the previous window.
func (r *region) receiveCrossings(parity int) {
	if r.net.pool != nil {
		return // nothing was kept for it
	}
	for _, from := range r.net.regions {
		out := &from.crossings[parity][r.index]
		for i := range *out {
			c := &(*out)[i]
			id, p := r.pool.get()
			p.at, p.length, p.payload, p.header, p.class, p.pause, p.is = c.at, c.length, c.payload, c.header, c.class, c.pause, c.is
			copy(p.data[:], c.data[:c.header])
			r.fly(c.dir, id, p)
		}
		*out = (*out)[:0]
	}
}
