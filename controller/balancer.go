package controller

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Balance is how switches choose an uplink for a packet without a label.
type Balance uint8

// The balancers.
const (
	HashFlows        Balance = iota // ECMP: by a hash of the flow
	RobinSpray                      // round robin, the order reshuffled at intervals
	RandomSpray                     // an uplink chosen uniformly at random for each packet
	DestinationRotor                // round robin per destination, as in Ofan
	ShortestUplink                  // the uplink with the shortest queue
	// the least loaded uplink at a flow's first packet, and again after each pause of the flow
	FlowletUplink
	AssignedUplink     // the least loaded uplink at a flow's first packet, kept for the flow
	BestUplinkByPacket // the least loaded uplink, for every packet
)

// Rule describes a [Balance]: its action in the P4 program, and what it requires. A new one needs an action in the P4
// program, a line of [Rules], a layout of that action, and a load-balancing scheme that uses it.
type Rule struct {
	Action   Action // action of table balancer; NoAction: the table's default
	Text     string // for display; "": that of the previous rule
	Adaptive bool   // the program must know queue depths, and the positions of all uplinks

	args func(b *Balancing, rate fabric.Rate) []uint64 // of the action; nil: none
}

// Rules returns all rules, indexed by [Balance].
func Rules() []Rule { return rules[:] }

var rules = [...]Rule{
	HashFlows: {Text: "a hash of the 5-tuple selects an uplink of the group, from table `ecmp`"},
	RobinSpray: {
		Action: SprayRoundRobin,
		Text: "takes the group's slots in turn, with one pointer per group. After `reshuffle` rounds (default 5) the switch " +
			"shuffles the slots. ACKs move the same pointer; with `acks: hash` they take ECMP's uplink",
		args: func(b *Balancing, _ fabric.Rate) []uint64 { return []uint64{uint64(b.Reshuffle)} },
	},
	RandomSpray: {Action: SprayRandom, Text: "takes a random slot"},
	DestinationRotor: {
		Action: RotateDestinations,
		Text: "takes the slots in turn, with one pointer per destination (a ToR, or at an aggregation switch a pod). Packets " +
			"below 256 bytes have separate pointers. Each pointer starts at a random slot",
	},
	ShortestUplink: {
		Action: ShortestQueue, Adaptive: true,
		Text: "takes the uplink with the shortest data queue, or a random one of several. `bins: \"5,10,20\"` sets limits in " +
			"percent of a port's equal share of the buffer; lengths between two limits count as equal",
		args: func(b *Balancing, _ fabric.Rate) []uint64 {
			return []uint64{uint64(bits.Len64(uint64(b.Unit)) - 1), uint64(b.Bins[0] / b.Unit), uint64(b.Bins[1] / b.Unit), uint64(b.Bins[2] / b.Unit)}
		},
	},
	FlowletUplink: {
		Action: Flowlets, Adaptive: true,
		Text: "takes the best uplink. A flow keeps it until a pause longer than `gap` (default 16us) with `mode: flowlet`, for " +
			"ever with `mode: assigned`, and for one packet with `mode: per-packet`",
		args: flowletArgs,
	},
	AssignedUplink:     {Action: Flowlets, Adaptive: true, args: flowletArgs},
	BestUplinkByPacket: {Action: Flowlets, Adaptive: true, args: flowletArgs},
}

// flowletArgs returns the arguments of flowlets. Bytes keep an uplink busy for as long as they would at half its
// rate, so that loads above one half count, not only queues.
func flowletArgs(b *Balancing, rate fabric.Rate) []uint64 {
	ns := func(bytes int64) uint64 { return uint64(rate.TimeFor(bytes) / fabric.Nanosecond) }
	return []uint64{uint64(b.Rule - FlowletUplink), uint64(b.GapUs), max(1, ns(2*256)), max(1, ns(int64(b.Unit)))}
}

// balancerActions returns the actions of table balancer.
func balancerActions() (actions []Action) {
	for _, w := range rules[HashFlows+1:] {
		if !slices.Contains(actions, w.Action) {
			actions = append(actions, w.Action)
		}
	}
	return actions
}

// Balancing is a [Balance] and its parameters. The zero value is ECMP.
type Balancing struct {
	Rule Balance
	// Reshuffle is the number of rounds after which RobinSpray shuffles the uplinks; 0: never.
	Reshuffle int
	// DataOnly applies the balancer to data packets only; others, mostly ACKs, use ECMP.
	DataOnly bool
	// Bins are rising queue depths in bytes. ShortestUplink takes queues between the same two for equally long. All 0:
	// every difference counts.
	Bins [3]fabric.Bytes
	// GapUs is the pause after which FlowletUplink chooses again, in microseconds.
	GapUs uint32
	// Unit is the number of bytes per unit of the target's queue depth, as [ECN].Unit.
	Unit fabric.Bytes
}

// Limits of the program.
const (
	maxRotations    = 1 << 12 // number of values of the index of P4 action set_rotation
	allUplinksGroup = 0xFFFF  // the group that contains all uplinks as slots
)

func (b Balancing) validate(f *fabric.Fabric, groupSize int) error {
	switch {
	case b.Rule == HashFlows:
		return nil
	case int(b.Rule) >= len(rules):
		return fmt.Errorf("rule %d is unknown; the last one is %d", b.Rule, len(rules)-1)
	case !f.Clos():
		return fmt.Errorf("rule: the switches of a %s have one minimal path and do not balance; use a scheme of hosts", f.Spec().Kind)
	case b.Reshuffle < 0 || b.Reshuffle > 255:
		return fmt.Errorf("reshuffle: %d is outside 0 to 255", b.Reshuffle)
	case rules[b.Rule].Adaptive && b.Unit < 1:
		return errors.New("unit: missing; give the bytes that one step of queue depth stands for")
	case b.Rule == DestinationRotor && max(f.ToRs(), f.Spec().Pods) > maxRotations:
		return fmt.Errorf("rule: %d ToRs need more than the %d pointers of a switch; use another balancer", f.ToRs(), maxRotations)
	case groupSize > fabric.MaxUplinks:
		return fmt.Errorf("rule: groups of %d shares are too large for a balancer other than ECMP; use a MaxGroupSize of %d", groupSize, fabric.MaxUplinks)
	case int(perToRGroup)+f.ToRs() > allUplinksGroup:
		return fmt.Errorf("rule: %d ToRs need more groups than a balancer other than ECMP has", f.ToRs())
	}
	if b.Rule == ShortestUplink {
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

// appendBalancer appends the entries that select the balancer, for data and for other packets.
func (c *Core) appendBalancer(w *tableWriter, n *fabric.Node) {
	b := c.cfg.Balancer
	if b.Rule == HashFlows || n.Uplinks() == 0 {
		return
	}
	rule := rules[b.Rule]
	for data := range uint64(2) {
		if b.DataOnly && data == 0 {
			continue // hash_flows is the table's default
		}
		var args []uint64
		if rule.args != nil {
			args = rule.args(&b, c.f.Link(n.Link(n.FirstUplink())).Rate)
		}
		w.addEntry(exactKey(Balancer, data), rule.Action, args...)
	}
}

// appendRotations appends the entries that assign a rotation pointer to a packet's destination: one per ToR at a
// ToR, one per pod at an aggregation switch.
func (c *Core) appendRotations(w *tableWriter, n *fabric.Node) {
	if c.cfg.Balancer.Rule != DestinationRotor || n.Uplinks() == 0 {
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
			w.addEntry(k, SetRotation, uint64(p.index))
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
