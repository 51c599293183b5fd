package scenario

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/strictyaml"
)

func (s *Scenario) checkFailure(c Failure, path string, f *fabric.Fabric, bad reportError) {
	if c.Name == "" {
		bad(path+".name", "is empty", "give the case a name")
	}
	known := []string{string(NotifyTimeout), string(NotifyQuench), string(NotifyGNMI), string(NotifyAll)}
	for i, n := range c.Notifiers {
		p := fmt.Sprintf("%s.notifiers[%d]", path, i)
		if !slices.Contains(known, string(n)) {
			bad(p, fmt.Sprintf("unknown notifier %q", n), strictyaml.Choose(string(n), known))
		} else if slices.Contains(c.Notifiers[:i], n) {
			bad(p, fmt.Sprintf("%s is in the list already", n), "remove one")
		}
	}
	if len(c.Events) == 0 {
		if len(c.Notifiers) > 0 {
			bad(path+".notifiers", "nothing fails in this case", "add events, or remove the notifiers")
		}
		return
	}
	if len(c.Notifiers) == 0 {
		bad(path+".notifiers", "is missing", "list who may notify the hosts, as in [timeout, quench, gnmi]; each is a run")
	}
	if _, err := c.countMoments(); err != nil {
		bad(path+".events", err.Error(), "give them as many, or one of them one")
	}
	states := map[fabric.LinkID]linkState{}
	var last fabric.Time
	for i, e := range c.Events {
		p := fmt.Sprintf("%s.events[%d]", path, i)
		if len(e.When) == 0 && e.At < last {
			bad(p+".at", fmt.Sprintf("%v is before the event above it (%v)", e.At, last), "list events in order of time")
		}
		last = max(last, e.At)
		for _, m := range append(e.When, Moment{Plus: e.At}) {
			if m.Plus >= s.Deadline {
				bad(p+".at", fmt.Sprintf("%v is not before the deadline (%v)", m, s.Deadline), "move the event or the deadline")
				break
			}
		}
		if e.Detection > 1000*fabric.Second {
			bad(p+".detection", fmt.Sprintf("%v is more than 1000s", e.Detection), "write for example 10us")
		}
		if !slices.Contains(Actions(), e.Action) {
			remedy := strictyaml.Choose(string(e.Action), actionNames())
			if now, was := formerActions()[e.Action]; was {
				remedy = fmt.Sprintf("it is called %s now", now)
			}
			bad(p+".action", fmt.Sprintf("%q is unknown", e.Action), remedy)
			continue
		}
		e.checkAction(p, bad)
		if (e.Action == Pause || e.Action == Resume) && !s.FlowControl().Enabled() {
			bad(p+".action", "switches without priority flow control take no notice of it", "add switch.pfc: {alpha: 1}, or remove the event")
		}
		if e.Action.OfLinks() {
			e.checkPlace(p, f, states, bad)
		} else {
			e.checkControl(p, f, bad)
		}
	}
}

func actionNames() []string {
	var names []string
	for _, a := range Actions() {
		names = append(names, string(a))
	}
	return names
}

// checkAction checks the keys of the event's action alone.
func (e Event) checkAction(p string, bad reportError) {
	if known := []string{string(Upward), string(Downward)}; e.Direction != BothDirections && !slices.Contains(known, string(e.Direction)) {
		bad(p+".direction", fmt.Sprintf("%q is unknown", e.Direction), strictyaml.Choose(string(e.Direction), known)+", or leave it out for both")
	}
	again := []string{string(Flap), string(Chaos)}
	for _, k := range []struct {
		key     string
		given   bool
		actions []string
		remedy  string
	}{
		{"loss", e.Loss != 0, []string{string(Gray)}, "write for example 1%"},
		{"rate", e.Rate != 0, []string{string(Degrade)}, "write for example 100Gb/s"},
		{"period", e.Period != 0, again, "write for example 100us"},
		{"down", e.Down != 0, again, "write for example 20us"},
		{"times", e.Times != 0, again, "write for example 10"},
	} {
		switch belongs := slices.Contains(k.actions, string(e.Action)); {
		case k.given && !belongs:
			bad(p+"."+k.key, fmt.Sprintf("belongs to action %s", strings.Join(k.actions, ", ")), "remove it")
		case !k.given && belongs:
			bad(p+"."+k.key, "is missing", k.remedy)
		}
	}
	if e.Reported && e.Action != Degrade {
		bad(p+".reported", "belongs to action degrade", "remove it")
	}
	if e.Action == Degrade && e.Rate < 0 {
		bad(p+".rate", fmt.Sprintf("%v is below zero", e.Rate), "write for example 100Gb/s")
	}
	if !slices.Contains(again, string(e.Action)) {
		return
	}
	if e.Times < 0 || e.Times > 10_000 {
		bad(p+".times", fmt.Sprintf("%d is outside 1 to 10000", e.Times), "write for example 10")
	}
	if e.Period > 1000*fabric.Second {
		bad(p+".period", fmt.Sprintf("%v is more than 1000s", e.Period), "write for example 100us")
	}
	if e.Down >= e.Period {
		bad(p+".down", fmt.Sprintf("%v is not less than the period (%v)", e.Down, e.Period), "write less")
	}
}

// checkControl checks the target of an event of the control plane, or of a host.
func (e Event) checkControl(p string, f *fabric.Fabric, bad reportError) {
	host, drain := e.Action.OfHosts(), e.Action == Drain || e.Action == Undrain
	for _, k := range []struct {
		key   string
		given bool
		takes bool
	}{
		{"link", e.Link != "", drain}, {"node", e.Node != "", host || drain}, {"random", e.Random != 0, false},
		{"direction", e.Direction != BothDirections, false}, {"detection", e.Detection != 0, false},
	} {
		if k.given && !k.takes {
			bad(p+"."+k.key, fmt.Sprintf("%s has none", e.Action), "remove it")
			return
		}
	}
	switch {
	case drain && (e.Link == "") == (e.Node == ""):
		bad(p, "names neither a link nor a switch, or both", "write for example link: tor0-agg0, or node: agg1")
	case host && e.Node == "":
		bad(p+".node", "is missing", "name a host, as in h0")
	case f == nil:
	case e.Node != "":
		id, err := NodeNamed(f, e.Node)
		isHost := err == nil && f.Node(id).Tier == fabric.Host
		switch {
		case err != nil:
			bad(p+".node", strings.TrimPrefix(err.Error(), "fabric: "), "name a node, as in core0 or h0")
		case host && !isHost:
			bad(p+".node", e.Node+" is no host", "name a host, as in h0")
		case drain && isHost:
			bad(p+".node", e.Node+" is a host", "name a switch, as in core0")
		}
	case e.Link != "":
		if _, err := linkNamed(f, e.Link); err != nil {
			bad(p+".link", strings.TrimPrefix(err.Error(), "fabric: "), "name a link, as in tor0-agg0")
		}
	}
}

// linkState is the effect of the events so far on a link.
type linkState struct{ cut, impaired bool }

// checkPlace checks which links an event concerns, and that it changes them.
func (e Event) checkPlace(p string, f *fabric.Fabric, states map[fabric.LinkID]linkState, bad reportError) {
	var given []string
	for _, k := range []struct {
		key string
		is  bool
	}{{"link", e.Link != ""}, {"node", e.Node != ""}, {"random", e.Random != 0}} {
		if k.is {
			given = append(given, k.key)
		}
	}
	switch {
	case e.Action == Chaos && len(given) > 0:
		bad(p+"."+given[0], "what fails is drawn", "remove it")
		return
	case e.Action == Chaos && e.Direction != BothDirections:
		bad(p+".direction", "links fail both ways", "remove it")
		return
	case e.Action == Chaos:
		return
	case len(given) == 0:
		bad(p, "names neither a link nor a node", "add for example link: tor0-agg0, or random: 1%")
		return
	case len(given) > 1:
		bad(p+"."+given[1], "the event names a "+given[0]+" as well", "keep one of the two")
		return
	case f == nil || e.Random > 0:
		return
	}
	links, err := e.Links(f, 0)
	if err != nil {
		problem, remedy, _ := strings.Cut(strings.TrimPrefix(err.Error(), "fabric: "), "; ")
		if remedy == "" {
			remedy = fmt.Sprintf("write for example %s; `ethereal topo --scenario FILE -o json` lists them", f.LinkName(fabric.LinkID(f.HostLinks())))
		}
		bad(p+"."+given[0], problem, remedy)
		return
	}
	for _, l := range links {
		if full := f.Link(l).Rate; e.Action == Degrade && e.Rate > full {
			bad(p+".rate", fmt.Sprintf("%v is more than the %v of %s", e.Rate, full, f.LinkName(l)), "write less: a degraded link is slower")
			return
		}
		s := states[l]
		state := ""
		switch {
		case e.Action == Restore && !s.cut && !s.impaired:
			state = "up"
		case (e.Action == Cut || e.Action == Flap) && s.cut:
			state = "cut"
		}
		if e.Link != "" && state != "" {
			bad(p+".action", fmt.Sprintf("%s is %s at that time already", e.Link, state), "remove the event, or correct the order")
		}
		switch e.Action {
		case Cut:
			s.cut = true
		case Gray, Degrade:
			s.impaired = true
		default:
			s = linkState{}
		}
		states[l] = s
	}
}
