package cases

import (
	"fmt"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Limits of drawn fabrics.
const (
	minHosts            = 8
	maxHosts            = 128
	maxOversubscription = 4 // oversubscription, to 1
)

// drawnFabric is a drawn fabric.
type drawnFabric struct {
	spec   fabric.Spec
	delays bool // given; otherwise the default
	rails  bool // each ToR has one GPU of each server
}

// drawFabric draws until the hosts and the oversubscription are within the limits.
func drawFabric(d *dice) drawnFabric {
	for {
		spec := fabric.Spec{Kind: fabric.KindLeafSpine}
		if d.percent(40) {
			spec.Kind = fabric.KindFatTree
		}
		drawShape(d, &spec)
		drawRates(d, &spec)
		if d.percent(12) {
			spec.Planes = pick(d, 2, 2, 4)
		}
		n := drawnFabric{spec: spec}
		n.setDelays(d)
		if spec.Kind == fabric.KindLeafSpine {
			n.spec.AggUplink = fabric.LinkSpec{}
		}
		if hosts := n.hosts(); hosts >= minHosts && hosts <= maxHosts && n.isOversubscribed() {
			return n
		}
	}
}

// drawDragonfly is drawFabric for dragonflies. Only global links fail, of which each ToR has several.
func drawDragonfly(d *dice) drawnFabric {
	for {
		s := fabric.Spec{Kind: fabric.KindDragonfly}
		s.ToRsPerPod = weighted(d, weightedValue[int]{2, 1}, weightedValue[int]{4, 2}, weightedValue[int]{3, 3}, weightedValue[int]{3, 4})
		s.GlobalLinks = weighted(d, weightedValue[int]{6, 2}, weightedValue[int]{2, 3}, weightedValue[int]{2, 4})
		s.HostsPerToR = weighted(d, weightedValue[int]{2, 1}, weightedValue[int]{5, 2}, weightedValue[int]{2, 3}, weightedValue[int]{2, 4}, weightedValue[int]{1, 8})
		s.Pods = s.ToRsPerPod*s.GlobalLinks + 1
		drawRates(d, &s)
		n := drawnFabric{spec: s}
		n.setDelays(d)
		if hosts := n.hosts(); hosts >= minHosts && hosts <= maxHosts && n.isOversubscribed() {
			return n
		}
	}
}

// drawRails is drawFabric for leaf-spines of rails. A server has as many GPUs as there are ToRs.
func drawRails(d *dice) drawnFabric {
	for {
		s := fabric.Spec{Kind: fabric.KindLeafSpine}
		drawShape(d, &s)
		s.ToRs = weighted(d, weightedValue[int]{3, 2}, weightedValue[int]{4, 4}, weightedValue[int]{3, 8})
		drawRates(d, &s)
		n := drawnFabric{spec: s, rails: true}
		n.setDelays(d)
		n.spec.AggUplink = fabric.LinkSpec{}
		if hosts := n.hosts(); hosts >= minHosts && hosts <= maxHosts && n.isOversubscribed() {
			return n
		}
	}
}

// servers is the value of key servers, where messages between rails move inside a server first, as NCCL's PXN has it.
func (n drawnFabric) servers() string {
	return fmt.Sprintf("{gpus: %d, wiring: rail, cross_rail: internal}", n.spec.ToRs)
}

// drawShape draws the counts. Half of the fabrics have at most 32 hosts.
func drawShape(d *dice, s *fabric.Spec) {
	if s.Kind == fabric.KindLeafSpine {
		s.ToRs = weighted(d,
			weightedValue[int]{1, 2}, weightedValue[int]{1, 3}, weightedValue[int]{4, 4}, weightedValue[int]{1, 5}, weightedValue[int]{1, 6},
			weightedValue[int]{3, 8}, weightedValue[int]{1, 16})
		s.Spines = weighted(d,
			weightedValue[int]{3, 2}, weightedValue[int]{2, 3}, weightedValue[int]{4, 4}, weightedValue[int]{1, 5}, weightedValue[int]{1, 6},
			weightedValue[int]{3, 8},
			weightedValue[int]{1, 12}, weightedValue[int]{1, 16})
		s.HostsPerToR = weighted(d,
			weightedValue[int]{1, 1}, weightedValue[int]{3, 2}, weightedValue[int]{1, 3}, weightedValue[int]{4, 4}, weightedValue[int]{1, 6},
			weightedValue[int]{2, 8}, weightedValue[int]{1, 16})
		return
	}
	s.Pods = weighted(d, weightedValue[int]{2, 2}, weightedValue[int]{1, 3}, weightedValue[int]{3, 4}, weightedValue[int]{1, 6})
	s.ToRsPerPod = weighted(d, weightedValue[int]{1, 1}, weightedValue[int]{4, 2}, weightedValue[int]{1, 3}, weightedValue[int]{2, 4})
	s.AggsPerPod = weighted(d, weightedValue[int]{4, 2}, weightedValue[int]{1, 3}, weightedValue[int]{4, 4}, weightedValue[int]{1, 8})
	s.Cores = s.AggsPerPod * weighted(d, weightedValue[int]{2, 1}, weightedValue[int]{3, 2}, weightedValue[int]{1, 3}, weightedValue[int]{2, 4})
	s.HostsPerToR = weighted(d,
		weightedValue[int]{1, 1}, weightedValue[int]{3, 2}, weightedValue[int]{3, 4}, weightedValue[int]{1, 6}, weightedValue[int]{2, 8})
}

// drawRates draws the links' rates: most fabrics have one rate, as most measurements do.
func drawRates(d *dice, s *fabric.Spec) {
	host := pick(d, 100*fabric.Gbps, 200*fabric.Gbps, 400*fabric.Gbps, 400*fabric.Gbps)
	other := func(lower fabric.Rate) fabric.Rate {
		return weighted(d,
			weightedValue[fabric.Rate]{6, lower}, weightedValue[fabric.Rate]{1, lower / 4}, weightedValue[fabric.Rate]{2, lower / 2},
			weightedValue[fabric.Rate]{2, lower * 2}, weightedValue[fabric.Rate]{1, lower * 4})
	}
	s.HostLink.Rate, s.ToRUplink.Rate = host, other(host)
	if s.Kind != fabric.KindLeafSpine {
		s.AggUplink.Rate = other(s.ToRUplink.Rate)
	}
}

// setDelays draws the links' propagation delays: 100 ns to 10 us.
func (n *drawnFabric) setDelays(d *dice) {
	draw := func() fabric.Time { return fabric.Time(max(100, d.logUniform(100, 7)*100/128)) * fabric.Nanosecond }
	s := &n.spec
	all := fabric.DefaultDelay
	switch {
	case d.percent(50):
	case d.percent(60):
		all, n.delays = draw(), true
	default:
		n.delays = true
		s.HostLink.Delay, s.ToRUplink.Delay, s.AggUplink.Delay = draw(), draw(), draw()
		return
	}
	s.HostLink.Delay, s.ToRUplink.Delay, s.AggUplink.Delay = all, all, all
}

func (n drawnFabric) hosts() int { return n.racks() * n.spec.HostsPerToR }

func (n drawnFabric) racks() int {
	if n.spec.Kind == fabric.KindLeafSpine {
		return n.spec.ToRs
	}
	return n.spec.Pods * n.spec.ToRsPerPod
}

// uplinks is the number of uplinks of a ToR, in a plane; of a dragonfly, its global links.
func (n drawnFabric) uplinks() int {
	switch n.spec.Kind {
	case fabric.KindLeafSpine:
		return n.spec.Spines
	case fabric.KindDragonfly:
		return n.spec.GlobalLinks
	}
	return n.spec.AggsPerPod
}

// uplink is the kind of those links.
func (n drawnFabric) uplink() fabric.LinkSpec {
	if n.spec.Kind == fabric.KindDragonfly {
		return n.spec.AggUplink
	}
	return n.spec.ToRUplink
}

func (n drawnFabric) planes() int { return max(1, n.spec.Planes) }

// oversubscription returns the oversubscription towards the top of the fabric, in hundredths.
func (n drawnFabric) oversubscription() int64 {
	s := n.spec
	if s.Kind == fabric.KindDragonfly { // by minimal paths, if all hosts send to all
		return 100 * int64(s.HostsPerToR) * int64(s.HostLink.Rate) / (int64(s.GlobalLinks) * int64(s.AggUplink.Rate))
	}
	tor := 100 * int64(s.HostsPerToR) * int64(s.HostLink.Rate) / (int64(n.uplinks()) * int64(s.ToRUplink.Rate))
	if s.Kind == fabric.KindLeafSpine {
		return tor
	}
	perAgg := int64(s.Cores / s.AggsPerPod)
	hosts := int64(s.ToRsPerPod) * int64(s.HostsPerToR)
	pod := 100 * hosts * int64(s.HostLink.Rate) / (int64(s.AggsPerPod) * perAgg * int64(s.AggUplink.Rate))
	return max(tor, pod)
}

func (n drawnFabric) isOversubscribed() bool {
	return n.oversubscription() >= 50 && n.oversubscription() <= 100*maxOversubscription && n.uplinks() <= 16
}

// links returns the number of links of the longest path between hosts.
func (n drawnFabric) links() int {
	switch n.spec.Kind {
	case fabric.KindLeafSpine:
		return 4
	case fabric.KindDragonfly:
		return 7
	}
	return 6
}

// oneWay returns the time of a packet over the longest path of an idle fabric.
func (n drawnFabric) oneWay(packet int64) fabric.Time {
	s := n.spec
	t := 2 * (s.HostLink.Delay + s.HostLink.Rate.TimeFor(packet) + s.ToRUplink.Delay + s.ToRUplink.Rate.TimeFor(packet))
	if s.Kind != fabric.KindLeafSpine {
		t += 2 * (s.AggUplink.Delay + s.AggUplink.Rate.TimeFor(packet))
	}
	if s.Kind == fabric.KindDragonfly {
		t += s.ToRUplink.Delay + s.ToRUplink.Rate.TimeFor(packet)
	}
	return t
}

// yaml writes the fabric's value.
func (n drawnFabric) yaml() string {
	s := n.spec
	keys := []string{"kind: " + s.Kind}
	count := func(key string, v int) {
		if v > 0 {
			keys = append(keys, fmt.Sprintf("%s: %d", key, v))
		}
	}
	count("tors", s.ToRs)
	count("spines", s.Spines)
	count("pods", s.Pods)
	count("tors_per_pod", s.ToRsPerPod)
	count("aggs_per_pod", s.AggsPerPod)
	count("cores", s.Cores)
	count("global_links", s.GlobalLinks)
	count("hosts_per_tor", s.HostsPerToR)
	count("planes", s.Planes)
	links := map[string]fabric.LinkSpec{"host_link": s.HostLink, "tor_uplink": s.ToRUplink, "agg_uplink": s.AggUplink}
	for _, key := range []string{"host_link", "tor_uplink", "agg_uplink"} {
		l := links[key]
		if key == "agg_uplink" && s.Kind == fabric.KindLeafSpine {
			continue
		}
		keys = append(keys, fmt.Sprintf("%s: {rate: %v, delay: %v}", key, l.Rate, l.Delay))
	}
	return "{" + strings.Join(keys, ", ") + "}"
}
