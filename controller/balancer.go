package controller

import (
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Balance is a way in which switches choose an uplink for a packet that no
// label guides.
type Balance uint8

// The ways.
const (
	HashFlows          Balance = iota // ECMP
	RobinSpray                        // round robin, the order shuffled now and then
	RandomSpray                       // uniformly at random
	DestinationRotor                  // round robin by destination, as Ofan has it
	ShortestUplink                    // the uplink with the shortest queue
	FlowletUplink                     // the best uplink, kept until a pause
	AssignedUplink                    // the best uplink, kept
	BestUplinkByPacket                // the best uplink, for every packet
	balanceCount
)

// Balancing is a [Balance] and its parameters. The zero value is ECMP.
type Balancing struct {
	Way Balance
	// Reshuffle is after how many rounds RobinSpray shuffles the uplinks; 0: never.
	Reshuffle int
	// DataOnly leaves to ECMP what is not data, ACKs above all.
	DataOnly bool
	// Bins are the depths of queue from which ShortestUplink takes a queue for a
	// longer one, rising; all 0: every difference counts.
	Bins [3]fabric.Bytes
	// GapUs is the pause after which FlowletUplink chooses anew, in microseconds.
	GapUs uint32
	// Unit is how many bytes one step of the target's queue depth stands for, as
	// that of [ECN].
	Unit fabric.Bytes
}

// Limits of what the program can hold.
const (
	maxRotations = 1 << 12 // set_rotation's index
	eachUplink   = 0xFFFF  // the group whose slots are the uplinks
)

// adaptive reports whether the way needs to know queues.
func (b Balance) adaptive() bool { return b >= ShortestUplink }

func (b Balancing) validate(f *fabric.Fabric, groupSize int) error {
	switch {
	case b.Way == HashFlows:
		return nil
	case b.Way >= balanceCount:
		return fmt.Errorf("way %d is unknown; the last one is %d", b.Way, balanceCount-1)
	case b.Reshuffle < 0 || b.Reshuffle > 255:
		return fmt.Errorf("reshuffle: %d is outside 0 to 255", b.Reshuffle)
	case b.Way.adaptive() && b.Unit < 1:
		return errors.New("unit: missing; give the bytes that one step of queue depth stands for")
	case b.Way == DestinationRotor && max(f.ToRs(), f.Spec().Pods) > maxRotations:
		return fmt.Errorf("way: %d ToRs need more than the %d pointers of a switch; use another balancer", f.ToRs(), maxRotations)
	case groupSize > fabric.MaxUplinks:
		return fmt.Errorf("way: groups of %d shares are too large for a balancer other than ECMP; use a MaxGroupSize of %d", groupSize, fabric.MaxUplinks)
	case int(perToRGroup)+f.ToRs() > eachUplink:
		return fmt.Errorf("way: %d ToRs need more groups than a balancer other than ECMP has", f.ToRs())
	}
	if b.Way == ShortestUplink {
		last := fabric.Bytes(0)
		for _, x := range b.Bins {
			if x < last || x/b.Unit > maxDepth {
				return fmt.Errorf("bins: %v do not rise, or exceed %d steps of %v", b.Bins, maxDepth, b.Unit)
			}
			last = x
		}
	}
	return nil
}

// appendBalancer appends the choice of the balancer, for data and for all else.
func (c *Core) appendBalancer(w *tableWriter, n *fabric.Node) {
	b := c.cfg.Balancer
	if b.Way == HashFlows || n.Uplinks() == 0 {
		return
	}
	for data := range uint64(2) {
		if b.DataOnly && data == 0 {
			continue // hash_flows is the table's default
		}
		k := exact(Balancer, data)
		switch b.Way {
		case RobinSpray:
			w.add(k, SprayRoundRobin, uint64(b.Reshuffle))
		case RandomSpray:
			w.add(k, SprayRandom)
		case DestinationRotor:
			w.add(k, RotateDestinations)
		case ShortestUplink:
			w.add(k, ShortestQueue, uint64(bits.Len64(uint64(b.Unit))-1),
				uint64(b.Bins[0]/b.Unit), uint64(b.Bins[1]/b.Unit), uint64(b.Bins[2]/b.Unit))
		default:
			// Bytes keep an uplink busy for as long as they would at half its rate,
			// so that loads above one half tell, not only queues.
			rate := c.f.Link(n.Link(n.FirstUplink())).Rate
			ns := func(bytes int64) uint64 { return uint64(rate.TimeFor(bytes) / fabric.Nanosecond) }
			w.add(k, Flowlets, uint64(b.Way-FlowletUplink), uint64(b.GapUs), max(1, ns(2*256)), max(1, ns(int64(b.Unit))))
		}
	}
}

// appendRotations appends which pointer a destination's packets move: one per
// ToR at a ToR, one per pod at an aggregation switch.
func (c *Core) appendRotations(w *tableWriter, n *fabric.Node) {
	if c.cfg.Balancer.Way != DestinationRotor || n.Uplinks() == 0 {
		return
	}
	for _, t := range []Table{RotationV4, RotationV6} {
		route := RouteV4
		if t == RotationV6 {
			route = RouteV6
		}
		add := func(p prefix) {
			k := prefixKey(c.f, route, p)
			k.Table = t
			w.add(k, SetRotation, uint64(p.index))
		}
		if n.Tier == fabric.ToR {
			for d := range c.f.ToRs() {
				if d != n.Index {
					add(prefix{1, d})
				}
			}
			continue
		}
		for q := range c.f.Spec().Pods {
			if q != n.Pod {
				add(prefix{2, q})
			}
		}
	}
}

// appendSlots appends, for the balancers other than ECMP, the groups' slots:
// each uplink as often as it has shares, round after round, in an order of the
// switch's and the group's own. full adds what no change of a link touches: the
// uplinks by their number.
func (c *Core) appendSlots(out []Entry, n *fabric.Node, groups []Entry, full bool) []Entry {
	if c.cfg.Balancer.Way == HashFlows {
		return out
	}
	w := tableWriter{c.f, out}
	slots := make([]int, len(groups))
	sets := make([]uint64, len(groups))
	for i, g := range groups {
		rng := rand.New(rand.NewPCG(uint64(c.cfg.HashSeed), uint64(n.ID)<<16|g.Value.Lo))
		order := rng.Perm(len(g.Members))
		for round := int32(1); ; round++ {
			before := slots[i]
			for _, m := range order {
				if x := g.Members[m]; x.Weight >= round {
					w.add(exact(UplinkSlot, g.Value.Lo<<8|uint64(slots[i])), TakeUplink, uint64(x.Port))
					sets[i] |= 1 << (x.Port - n.FirstUplink())
					slots[i]++
				}
			}
			if slots[i] == before {
				break
			}
		}
	}
	if full && c.cfg.Balancer.Way.adaptive() {
		for u := range uint64(n.Uplinks()) {
			w.add(exact(UplinkSlot, eachUplink<<8|u), TakeUplink, uint64(n.FirstUplink())+u)
		}
	}
	for i, g := range groups {
		w.add(exact(UplinkGroup, g.Value.Lo), SetSlots, uint64(slots[i]), sets[i])
	}
	return w.out
}
