package importer

import (
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// tier is a tier of htsim's topology: the links below its switches.
type tier struct {
	speed, down, up, bundle, oversubscribed int64
	latency, inSwitch                       fabric.Time
	given                                   bool
}

// readHtsimTopology reads a topology as htsim's FatTreeTopologyCfg::read_cfg does, with the checks of
// set_custom_params. Bundles become one link of their joint rate. The latency of a switch becomes delay of its links,
// half of it on either side of the switch, so that each path has the same latency.
func readHtsimTopology(f *inputFile, _ Options, into *Imported) error {
	header := map[string]int64{}
	tiers := [3]tier{}
	at := -1
	err := f.lines(func(line int, w []string) error {
		key := strings.ToLower(w[0])
		if strings.HasPrefix(key, "#") {
			return nil
		}
		if len(w) < 2 {
			return f.fail(line, "%s has no value; write a number behind it", w[0])
		}
		v, err := f.number(line, w[0], w[1], 0, 1<<30)
		switch {
		case err != nil:
			return err
		case key == "tier" && v < 3:
			at = int(v)
			tiers[at].given, tiers[at].bundle, tiers[at].oversubscribed = true, 1, 1
		case at < 0 && (key == "nodes" || key == "tiers" || key == "podsize"):
			header[key] = v
		case at >= 0:
			return f.tier(line, w[0], v, &tiers[at])
		default:
			return f.fail(line, "unknown attribute %q; write Nodes, Tiers, Podsize or Tier", w[0])
		}
		return nil
	})
	if err != nil {
		return err
	}
	nodes, pod, count := header["nodes"], header["podsize"], header["tiers"]
	if count < 2 || count > 3 || nodes < 1 || pod < 1 || nodes%pod != 0 {
		return f.fail(0, "Nodes %d, Tiers %d, Podsize %d; write 2 or 3 tiers, and Nodes that are a multiple of Podsize", nodes, count, pod)
	}
	for i, t := range tiers[:count] {
		if !t.given || t.speed < 1 || t.down < 1 || t.bundle < 1 || t.latency < 1 || i < int(count)-1 && t.up < 1 {
			return f.fail(0, "tier %d is incomplete; write Downlink_speed_Gbps, Downlink_Latency_ns, Radix_Down and, below the top, Radix_Up", i)
		}
		if most := int64(fabric.MaxRate / fabric.Gbps); t.speed > most/t.bundle {
			return f.fail(0, "tier %d has Downlink_speed_Gbps %d by Bundle %d; the most is %d together", i, t.speed, t.bundle, most)
		}
	}
	s, err := f.htsimSpec(tiers, nodes, pod, int(count))
	if err != nil {
		return err
	}
	into.Fabric = &s
	return nil
}

// tier sets an attribute of a tier.
func (f *inputFile) tier(line int, name string, v int64, t *tier) error {
	switch strings.ToLower(name) {
	case "downlink_speed_gbps":
		t.speed = v
	case "radix_up":
		t.up = v
	case "radix_down":
		t.down = v
	case "oversubscribed":
		t.oversubscribed = v
	case "bundle":
		t.bundle = v
	case "downlink_latency_ns":
		t.latency = fabric.Time(v) * fabric.Nanosecond
	case "switch_latency_ns":
		t.inSwitch = fabric.Time(v) * fabric.Nanosecond
	case "queue_up", "queue_down":
		f.countNotCarried(line, "sizes of queues are left out; a switch's ports share switch.buffer here", name)
	default:
		return f.fail(line, "unknown attribute %q; write Downlink_speed_Gbps, Downlink_Latency_ns, Switch_Latency_ns, Radix_Up, "+
			"Radix_Down, Oversubscribed, Bundle, Queue_Up or Queue_Down", name)
	}
	return nil
}

func (f *inputFile) htsimSpec(tiers [3]tier, nodes, pod int64, count int) (fabric.Spec, error) {
	link := func(below, i int) fabric.LinkSpec {
		t := tiers[i]
		delay := t.latency + t.inSwitch/2
		if below >= 0 {
			delay += tiers[below].inSwitch / 2
		}
		if t.bundle > 1 {
			f.notes.add("bundles of parallel links are one link of their joint rate each", "")
		}
		return fabric.LinkSpec{Rate: fabric.Rate(t.speed*t.bundle) * fabric.Gbps, Delay: delay}
	}
	low, mid, high := tiers[0], tiers[1], tiers[2]
	aggs := low.up / mid.bundle // of a pod
	pods, tors := nodes/pod, pod/low.down
	switch {
	case low.bundle != 1:
		return fabric.Spec{}, f.fail(0, "hosts have %d links each; write Bundle 1 in tier 0", low.bundle)
	case pod%low.down != 0, low.up%mid.bundle != 0, mid.down%mid.bundle != 0:
		return fabric.Spec{}, f.fail(0, "Podsize, radices and bundles do not divide each other; make Podsize a multiple of tier 0's Radix_Down, and radices multiples of Bundle")
	case count == 2 && pods > 1:
		return fabric.Spec{}, f.fail(0, "two tiers have one pod; write Podsize %d", nodes)
	case tors*mid.bundle != mid.down:
		return fabric.Spec{}, f.fail(0, "a switch of tier 1 has Radix_Down %d for the %d ToRs of its pod by bundles of %d; write %d",
			mid.down, tors, mid.bundle, tors*mid.bundle)
	}
	s := fabric.Spec{
		Kind: fabric.KindLeafSpine, ToRs: int(tors), Spines: int(aggs), HostsPerToR: int(low.down),
		HostLink: link(-1, 0), ToRUplink: link(0, 1),
	}
	if count == 3 {
		if mid.up%high.bundle != 0 || high.down != pods*high.bundle {
			return fabric.Spec{}, f.fail(0, "a core switch has Radix_Down %d for %d pods by bundles of %d; write %d",
				high.down, pods, high.bundle, pods*high.bundle)
		}
		s = fabric.Spec{
			Kind: fabric.KindFatTree, Pods: int(pods), ToRsPerPod: int(tors), AggsPerPod: int(aggs), Cores: int(aggs * mid.up / high.bundle),
			HostsPerToR: int(low.down), HostLink: link(-1, 0), ToRUplink: link(0, 1), AggUplink: link(1, 2),
		}
	}
	if err := s.Validate(); err != nil {
		return fabric.Spec{}, f.fail(0, "%v", err)
	}
	return s, nil
}
