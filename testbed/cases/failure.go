package cases

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Class is the kind of failure of a case, on which the invariants that it must satisfy depend.
type Class string

// Classes.
const (
	Healthy     Class = "healthy"
	Quench      Class = "quench"   // cut, detected within 30 us, hosts notified by switches (or also by the controller)
	GNMI        Class = "gnmi"     // cut, detected within 30 us, hosts notified by the controller alone
	Late        Class = "late"     // cut, detected after 100 us to 10 ms
	NotNotified Class = "nobody"   // cut; hosts are not notified
	Flap        Class = "flap"     // a link is cut and restored several times
	Gray        Class = "gray"     // links lose packets at random
	Degraded    Class = "degraded" // links are slower
	Other       Class = "other"    // chaos, drains, controllers and agents that stop, pause storms, a cut beside a gray link
)

// Classes returns all classes.
func Classes() []Class {
	return []Class{Healthy, Quench, GNMI, Late, NotNotified, Flap, Gray, Degraded, Other}
}

// drawnFailure is a drawn failure case.
type drawnFailure struct {
	class    Class
	what     string // in words
	notifier string
	events   []string
	detected fabric.Time // after a cut; 0: never
}

func drawClass(d *dice) Class {
	return weighted(d,
		weightedValue[Class]{24, Healthy}, weightedValue[Class]{20, Quench}, weightedValue[Class]{12, GNMI}, weightedValue[Class]{10, Late},
		weightedValue[Class]{14, NotNotified},
		weightedValue[Class]{4, Flap}, weightedValue[Class]{8, Gray}, weightedValue[Class]{5, Degraded}, weightedValue[Class]{3, Other})
}

// drawFailure draws a failure of a class.
func drawFailure(d *dice, class Class, n drawnFabric, s *settings, takes fabric.Time) drawnFailure {
	f := drawnFailure{class: class, notifier: "timeout", detected: 10 * fabric.Microsecond}
	switch class {
	case Healthy:
		return drawnFailure{class: Healthy, what: "nothing"}
	case Quench:
		f.notifier = pick(d, "quench", "quench", "quench", "all")
		f.detected = fabric.Time(pick(d, 1, 10, 10, 10, 30)) * fabric.Microsecond
	case GNMI:
		f.notifier = "gnmi"
		f.detected = fabric.Time(pick(d, 1, 10, 10, 30)) * fabric.Microsecond
	case Late:
		f.notifier = pick(d, "quench", "gnmi", "all")
		f.detected = pick(d, 100*fabric.Microsecond, fabric.Millisecond, fabric.Millisecond, 10*fabric.Millisecond)
	case Flap:
		f.notifier = pick(d, "timeout", "quench", "gnmi", "all")
	}
	at := failureTime(d, takes)
	switch class {
	case Gray:
		f.gray(d, n, at)
	case Degraded:
		f.degrade(d, n, at)
	case Flap:
		f.flap(d, n, at)
	case Other:
		f.drawOther(d, n, s, at, takes)
	default:
		f.drawCut(d, n, at, takes)
	}
	if f.notifier == "timeout" {
		f.detected = 0
	}
	return f
}

// failureTime draws the time of a failure: mostly within the collective.
func failureTime(d *dice, takes fabric.Time) fabric.Time {
	if d.percent(5) {
		return fabric.Microsecond
	}
	return max(takes*fabric.Time(d.between(2, 85))/100/(100*fabric.Nanosecond)*(100*fabric.Nanosecond), fabric.Microsecond)
}

// drawCut draws which links are cut. What would part hosts is drawn again.
func (f *drawnFailure) drawCut(d *dice, n drawnFabric, at, takes fabric.Time) {
	type kind = string
	for {
		kinds := []weightedValue[kind]{
			{40, "uplink"}, {8, "one direction"}, {10, "restored"}, {10, "two ToRs"},
		}
		if n.spec.Kind != fabric.KindDragonfly { // whose switches all have hosts
			kinds = append(kinds, weightedValue[kind]{3, "restored switch"})
		}
		if n.uplinks() > 2 {
			kinds = append(kinds, weightedValue[kind]{15, "two uplinks"}, weightedValue[kind]{4, "random"})
		}
		if n.spec.Kind == fabric.KindFatTree {
			kinds = append(kinds, weightedValue[kind]{15, "core link"}, weightedValue[kind]{6, "aggregation switch"})
		}
		if n.spec.Kind != fabric.KindDragonfly {
			kinds = append(kinds, weightedValue[kind]{6, "top switch"})
		}
		if n.planes() > 1 {
			kinds = append(kinds, weightedValue[kind]{40, "host port"})
		}
		f.what, f.events = weighted(d, kinds...), nil
		p := fabricPlaces{n}
		var dead []string
		again := at + takes*fabric.Time(d.between(0, 30))/100/fabric.Microsecond*fabric.Microsecond
		switch f.what {
		case "uplink":
			dead = []string{p.uplink(d.below(n.planes()), d.below(n.racks()), d.below(n.uplinks()))}
			f.link(dead[0], at, "action: cut")
		case "one direction":
			dead = []string{p.uplink(d.below(n.planes()), d.below(n.racks()), d.below(n.uplinks()))}
			f.link(dead[0], at, "action: cut, direction: "+pick(d, "up", "down"))
		case "restored":
			dead = []string{p.uplink(d.below(n.planes()), d.below(n.racks()), d.below(n.uplinks()))}
			f.link(dead[0], at, "action: cut")
			f.link(dead[0], at+fabric.Time(d.logUniform(20, 5))*fabric.Microsecond, "action: restore")
		case "two ToRs":
			q := d.below(n.planes())
			tors := d.choose(2, n.racks())
			dead = []string{p.uplink(q, tors[0], d.below(n.uplinks())), p.uplink(q, tors[1], d.below(n.uplinks()))}
			f.link(dead[0], at, "action: cut")
			f.link(dead[1], pick(d, at, again), "action: cut")
		case "two uplinks":
			q, tor, ups := d.below(n.planes()), d.below(n.racks()), d.choose(2, n.uplinks())
			dead = []string{p.uplink(q, tor, ups[0]), p.uplink(q, tor, ups[1])}
			f.link(dead[0], at, "action: cut")
			f.link(dead[1], pick(d, at, again), "action: cut")
		case "random":
			for range d.between(2, 4) {
				if l := p.uplink(d.below(n.planes()), d.below(n.racks()), d.below(n.uplinks())); !slices.Contains(dead, l) {
					dead = append(dead, l)
				}
			}
			for _, l := range dead {
				f.link(l, at, "action: cut")
			}
		case "core link":
			dead = []string{p.coreLink(d)}
			f.link(dead[0], at, "action: cut")
		case "aggregation switch":
			dead = []string{p.name(d.below(n.planes()), "agg", d.below(n.spec.Pods*n.spec.AggsPerPod))}
			f.node(dead[0], at)
		case "top switch":
			dead = []string{p.top(d)}
			f.node(dead[0], at)
		case "restored switch":
			dead = []string{p.top(d)}
			f.node(dead[0], at)
			f.events = append(f.events, fmt.Sprintf("{at: %v, node: %s, action: restore, detection: %v}",
				at+fabric.Time(d.logUniform(20, 5))*fabric.Microsecond, dead[0], f.detected))
		case "host port":
			dead = []string{p.hostPort(d)}
			f.link(dead[0], at, "action: cut")
		}
		same := f.what == "two ToRs" && dead[0] == dead[1] // of a dragonfly
		if !same && p.connected(dead) {
			return
		}
	}
}

func (f *drawnFailure) link(link string, at fabric.Time, action string) {
	event := fmt.Sprintf("{at: %v, link: %s, %s", at, link, action)
	if _, silent := strings.CutPrefix(action, "action: gray"); !silent && !strings.HasPrefix(action, "action: degrade") {
		event += fmt.Sprintf(", detection: %v", f.detected)
	}
	f.events = append(f.events, event+"}")
}

func (f *drawnFailure) node(node string, at fabric.Time) {
	f.events = append(f.events, fmt.Sprintf("{at: %v, node: %s, action: cut, detection: %v}", at, node, f.detected))
}

func (f *drawnFailure) flap(d *dice, n drawnFabric, at fabric.Time) {
	p := fabricPlaces{n}
	period := d.logUniform(20, 4)
	f.what = "flapping uplink"
	f.link(p.uplink(d.below(n.planes()), d.below(n.racks()), d.below(n.uplinks())), at,
		fmt.Sprintf("action: flap, period: %dus, down: %dus, times: %d",
			period, max(1, period*int64(d.between(10, 80))/100), d.between(2, 6)))
}

func (f *drawnFailure) gray(d *dice, n drawnFabric, at fabric.Time) {
	p := fabricPlaces{n}
	loss := pick(d, "0.1%", "0.3%", "1%", "1%", "3%", "5%", "10%")
	f.what = loss + " loss"
	if d.percent(40) {
		at = fabric.Microsecond
	}
	how := "action: gray, loss: " + loss
	if d.percent(25) {
		how += ", direction: " + pick(d, "up", "down")
	}
	if d.percent(12) {
		f.what += " on links drawn at random"
		f.events = append(f.events, fmt.Sprintf("{at: %v, random: %d%%, %s}", at, pick(d, 2, 5, 20), how))
		return
	}
	q, tor := d.below(n.planes()), d.below(n.racks())
	links := 1
	if d.percent(25) {
		links = 2
		f.what += " on two uplinks"
	}
	for _, u := range d.choose(links, n.uplinks()) {
		f.link(p.uplink(q, tor, u), at, how)
	}
}

func (f *drawnFailure) degrade(d *dice, n drawnFabric, at fabric.Time) {
	p := fabricPlaces{n}
	if d.percent(40) {
		at = fabric.Microsecond
	}
	by := pick(d, 2, 4, 4, 10)
	f.what = fmt.Sprintf("an uplink at 1/%d", by)
	how := fmt.Sprintf("action: degrade, rate: %v", n.uplink().Rate/fabric.Rate(by))
	if d.percent(25) {
		f.what += ", reported"
		f.notifier = "gnmi"
		how += fmt.Sprintf(", reported: true, detection: %v", f.detected)
	}
	f.link(p.uplink(d.below(n.planes()), d.below(n.racks()), d.below(n.uplinks())), at, how)
}

// drawOther draws failures of the classes that the other functions do not draw.
func (f *drawnFailure) drawOther(d *dice, n drawnFabric, s *settings, at, takes fabric.Time) {
	p := fabricPlaces{n}
	kinds := []weightedValue[string]{{3, "chaos"}, {3, "agent down"}, {3, "cut and gray"}}
	if n.planes() == 1 {
		kinds = append(kinds, weightedValue[string]{3, "drain"}, weightedValue[string]{3, "controller down"})
	}
	if s.pfc {
		kinds = append(kinds, weightedValue[string]{6, "pause storm"})
	}
	f.what = weighted(d, kinds...)
	f.notifier = pick(d, "quench", "gnmi", "all")
	tor, ups := d.below(n.racks()), d.choose(2, n.uplinks())
	uplink := p.uplink(d.below(n.planes()), tor, ups[0])
	later := at + max(fabric.Microsecond, takes*fabric.Time(d.between(5, 50))/100/fabric.Microsecond*fabric.Microsecond)
	event := func(at fabric.Time, text string) { f.events = append(f.events, fmt.Sprintf("{at: %v, %s}", at, text)) }
	switch f.what {
	case "chaos":
		period := d.logUniform(20, 4)
		event(at, fmt.Sprintf("action: chaos, times: %d, period: %dus, down: %dus, detection: %v",
			d.between(2, 6), period, max(1, period*int64(d.between(10, 80))/100), f.detected))
	case "agent down":
		host := fmt.Sprintf("h%d", tor*n.spec.HostsPerToR+d.below(n.spec.HostsPerToR))
		event(at, "action: agent-down, node: "+host)
		f.link(uplink, at, "action: cut")
		event(later, "action: agent-up, node: "+host)
	case "cut and gray":
		f.link(p.uplink(0, tor, ups[1]), at, "action: gray, loss: "+pick(d, "0.3%", "1%", "3%"))
		if n.uplinks() > 2 {
			f.link(p.uplink(0, tor, ups[0]), later, "action: cut")
		} else {
			f.link(p.uplink(0, tor, ups[0]), later, "action: degrade, rate: "+(n.uplink().Rate/2).String())
		}
	case "drain":
		f.notifier = pick(d, "gnmi", "all")
		event(at, "action: drain, link: "+uplink)
		event(later, "action: undrain, link: "+uplink)
	case "controller down":
		f.notifier = pick(d, "gnmi", "all")
		event(at, "action: controller-down")
		f.link(uplink, at, "action: cut")
		event(later, "action: controller-up")
	case "pause storm":
		host := fmt.Sprintf("h%d", tor*n.spec.HostsPerToR+d.below(n.spec.HostsPerToR))
		event(at, "action: pause, node: "+host)
		event(later, "action: resume, node: "+host)
	}
}

// fabricPlaces names the places of a fabric.
type fabricPlaces struct{ drawnFabric }

func (p fabricPlaces) name(plane int, kind string, i int) string {
	if plane > 0 {
		return fmt.Sprintf("p%d%s%d", plane, kind, i)
	}
	return fmt.Sprintf("%s%d", kind, i)
}

// uplink names uplink u of a ToR.
func (p fabricPlaces) uplink(plane, tor, u int) string {
	s := p.spec
	if s.Kind == fabric.KindDragonfly {
		pod := tor / s.ToRsPerPod
		return p.globalLink(pod, (pod+tor%s.ToRsPerPod*s.GlobalLinks+u+1)%s.Pods)
	}
	if s.Kind == fabric.KindLeafSpine {
		return p.name(plane, "tor", tor) + "-" + p.name(plane, "spine", u)
	}
	return p.name(plane, "tor", tor) + "-" + p.name(plane, "agg", tor/s.ToRsPerPod*s.AggsPerPod+u)
}

// globalLink names the link between two pods of a dragonfly.
func (p fabricPlaces) globalLink(a, b int) string {
	f := p.fabric()
	return f.LinkName(f.GlobalLink(a, b))
}

func (p fabricPlaces) fabric() *fabric.Fabric {
	f, err := fabric.New(p.spec)
	if err != nil {
		panic("cases: " + err.Error()) // a programming error: the limits are within package fabric's
	}
	return f
}

// coreLink names a link between an aggregation and a core switch.
func (p fabricPlaces) coreLink(d *dice) string {
	s := p.spec
	plane, agg, per := d.below(p.planes()), d.below(s.Pods*s.AggsPerPod), s.Cores/s.AggsPerPod
	return p.name(plane, "agg", agg) + "-" + p.name(plane, "core", agg%s.AggsPerPod*per+d.below(per))
}

func (p fabricPlaces) top(d *dice) string {
	plane := d.below(p.planes())
	if p.spec.Kind == fabric.KindLeafSpine {
		return p.name(plane, "spine", d.below(p.spec.Spines))
	}
	return p.name(plane, "core", d.below(p.spec.Cores))
}

func (p fabricPlaces) hostPort(d *dice) string {
	h := d.below(p.hosts())
	return fmt.Sprintf("h%d-%s", h, p.name(d.below(p.planes()), "tor", h/p.spec.HostsPerToR))
}

// connected reports whether a path is left between all hosts without dead links and nodes.
func (p fabricPlaces) connected(dead []string) bool {
	f := p.fabric()
	gone := map[fabric.LinkID]bool{}
	ends := []fabric.NodeID{}
	for _, name := range dead {
		if id, err := f.LinkByName(name); err == nil {
			gone[id] = true
			if a := f.Link(id).A.Node; int(a) < f.Hosts() {
				ends = append(ends, a)
			}
			continue
		}
		id, err := f.NodeByName(name)
		if err != nil {
			panic("cases: " + err.Error())
		}
		for l := range f.Links() {
			if link := f.Link(fabric.LinkID(l)); link.A.Node == id || link.B.Node == id {
				gone[link.ID] = true
			}
		}
	}
	for r := range p.racks() {
		ends = append(ends, fabric.NodeID(r*p.spec.HostsPerToR))
		if p.spec.HostsPerToR > 1 {
			ends = append(ends, fabric.NodeID(r*p.spec.HostsPerToR+1))
		}
	}
	for _, a := range ends {
		for _, b := range ends {
			if a != b && !pathAlive(f, gone, a, b) {
				return false
			}
		}
	}
	return true
}

// pathAlive reports whether a label's path between two hosts has no dead link.
func pathAlive(f *fabric.Fabric, gone map[fabric.LinkID]bool, a, b fabric.NodeID) bool {
	var hops []fabric.Hop
	for l := range f.LabelSpan() {
		var ok bool
		hops, ok = f.HostPath(hops[:0], a, b, l)
		if ok && !slices.ContainsFunc(hops, func(h fabric.Hop) bool { return gone[h.Link] }) {
			return true
		}
	}
	return false
}
