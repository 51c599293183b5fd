package scenario

import (
	"cmp"
	"fmt"
	"github.com/ethereal-fabric/ethereal/testbed/workload"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/strictyaml"
)

// Event is a change during a run. It concerns a link, all links of a node, a share of the links between switches, the
// controller, or a host's agent.
type Event struct {
	// When are the times at which it happens, from the start of the collective, one run per time. If it is empty,
	// At is the only time.
	When Moments     `yaml:"at" required:"for example 20us after the start of the collective, or 30% of the healthy run"`
	At   fabric.Time `yaml:"-"`
	// Link is a link's name, "tor0-agg0", or its role, which is valid in any fabric with such a node: see
	// linkNamed.
	Link string `yaml:"link"`
	Node string `yaml:"node"` // "agg1", or its role, see [NodeNamed]: all its links; or the host
	// Random is the share of the links between switches that it concerns, at least one link, drawn by the run's
	// seed. Events with the same share concern the same links.
	Random Share  `yaml:"random"`
	Action Action `yaml:"action" was:"do" required:"for example cut"`
	// Direction is up (away from the hosts), down, or empty for both.
	Direction Direction `yaml:"direction"`

	Loss Share       `yaml:"loss"` // gray: each packet is lost with this probability
	Rate fabric.Rate `yaml:"rate"` // degrade: the link's new rate
	// For a flap: the link goes down Times times, at intervals of Period, and comes back after Down. In YAML the
	// default of Down is half the period. For a chaos: Times failures, one in each Period, each ending within Down.
	Period fabric.Time `yaml:"period"`
	Down   fabric.Time `yaml:"down"`
	Times  int         `yaml:"times"`

	// Detection is the delay until the switches at the link's ends notice. They never notice a gray link, nor a
	// degraded one that is not Reported. With At and Detection 0, a controller that switches notify knows of the link
	// before the collective begins, and so do tables and agents.
	Detection fabric.Time `yaml:"detection"`
	// Reported: the switches at a degraded link's ends report its speed by gNMI, Detection later.
	Reported bool `yaml:"reported"`
}

// UnmarshalStrict reads the value from YAML, for [strictyaml.Unmarshaler]. Detection must be given where it applies: 0
// is written explicitly.
func (e *Event) UnmarshalStrict(d *strictyaml.Decoder, n *yaml.Node, path string) {
	meant := d.Fields(n, e, path)
	if len(e.When) == 1 && e.When[0].Share == 0 {
		e.At, e.When = e.When[0].Plus, nil
	}
	if (e.Action == Flap || e.Action == Chaos) && !d.Given(path+".down") {
		e.Down = e.Period / 2
	}
	if n.Kind != yaml.MappingNode || !slices.Contains([]Action{Cut, Restore, Flap, Chaos}, e.Action) {
		return
	}
	if detection := path + ".detection"; !d.Given(detection) && !slices.Contains(meant, "detection") {
		d.Complain(detection, "is missing", "add it; how long the switches take to notice, for example 10us")
	}
}

// Action is the action of an [Event].
type Action string

// Actions on links: on a link, on all links of a node, or on a share of the links.
const (
	Cut     Action = "cut"     // packets in flight are lost, and those sent from then on
	Restore Action = "restore" // the link works again, whatever its failure
	Gray    Action = "gray"    // the link silently loses packets at random
	Degrade Action = "degrade" // the link gets slower, silently unless its switches report it
	Flap    Action = "flap"    // the link goes down and comes back, repeatedly
	// Chaos is a series of failures of links and switches that the run's seed draws: see [Failure.Drawn].
	Chaos Action = "chaos"
)

// Actions on the control plane.
const (
	// Drain makes the controller take a link, or all links of a switch, out of use while it still carries packets.
	// Undrain puts it back.
	Drain   Action = "drain"
	Undrain Action = "undrain"
	// ControllerDown ends the controller, with its pending writes and notifications. The switches keep their
	// tables.
	ControllerDown Action = "controller-down"
	// ControllerUp starts a controller without state: it subscribes to the ports' states, reads the tables back,
	// writes the differences, and notifies the agents.
	ControllerUp Action = "controller-up"
	// AgentDown ends the agent of a host: its queue pairs keep their paths, even dead ones.
	AgentDown Action = "agent-down"
	// AgentUp starts the agent again. It first learns the links' states.
	AgentUp Action = "agent-up"
)

// Actions on a host's interface.
const (
	// Pause makes the host pause the switches that send to it, continuously: a PFC storm.
	Pause Action = "pause"
	// Resume ends a Pause: the host no longer pauses the switches that send to it.
	Resume Action = "resume"
)

// linkActions returns the actions on links.
func linkActions() []Action { return []Action{Cut, Restore, Gray, Degrade, Flap, Chaos} }

// Actions returns all actions.
func Actions() []Action {
	return append(linkActions(), Drain, Undrain, ControllerDown, ControllerUp, AgentDown, AgentUp, Pause, Resume)
}

// OfHosts reports whether the action concerns a host.
func (a Action) OfHosts() bool {
	return slices.Contains([]Action{AgentDown, AgentUp, Pause, Resume}, a)
}

// OfLinks reports whether the action concerns links.
func (a Action) OfLinks() bool { return slices.Contains(linkActions(), a) }

// formerActions returns actions by their former names.
func formerActions() map[Action]Action {
	return map[Action]Action{"link-down": Cut, "node-down": Cut, "link-up": Restore, "node-up": Restore, "rate": Degrade}
}

// String describes the event, without its time.
func (e Event) String() string {
	where := e.Link + e.Node
	if e.Random > 0 {
		where = e.Random.String() + " of the links"
	}
	text := strings.TrimSpace(string(e.Action) + " " + where)
	switch e.Action {
	case Flap, Chaos:
		text += fmt.Sprintf(", %d times, every %v", e.Times, e.Period)
	case Gray:
		text += fmt.Sprintf(", %v lost", e.Loss)
	case Degrade:
		text += fmt.Sprintf(", %v", e.Rate)
	}
	return text
}

// Intervention is an [Event] of the control plane or of a host, with node and link as numbers.
type Intervention struct {
	At   fabric.Time
	Do   Action
	Node fabric.NodeID // of AgentDown, AgentUp, Pause and Resume: the host
	Link fabric.LinkID // the link, for Drain and Undrain
}

// Interventions returns the events of the control plane and of hosts, in their order.
func (c Failure) Interventions(f *fabric.Fabric) ([]Intervention, error) {
	var out []Intervention
	for _, e := range c.Events {
		if e.Action.OfLinks() || !c.timesKnown() {
			continue
		}
		i := Intervention{At: e.At, Do: e.Action}
		var err error
		switch e.Action {
		case AgentDown, AgentUp, Pause, Resume:
			i.Node, err = NodeNamed(f, e.Node)
		case Drain, Undrain:
			var links []fabric.LinkID
			links, err = e.Links(f, 0)
			for _, l := range links {
				i.Link = l
				out = append(out, i)
			}
			if err == nil {
				continue
			}
		}
		if err != nil {
			return nil, err
		}
		out = append(out, i)
	}
	return out, nil
}

// Direction is one direction of a link.
type Direction string

// Directions.
const (
	BothDirections Direction = ""
	Upward         Direction = "up"   // away from the hosts
	Downward       Direction = "down" // towards the hosts
)

// Share is a fraction, 0 to 1. In YAML it is a number or a percentage.
type Share = workload.Share

// LinkEvent is an [Event] of one link, with the link as a number.
type LinkEvent struct {
	At        fabric.Time
	Link      fabric.LinkID
	Up        bool        // the link, or its direction, works again
	Detection fabric.Time // delay from At until the switches at both ends notice

	Direction Direction
	Loss      Share       // above 0: the link turns gray, without other effects
	Rate      fabric.Rate // above 0: the link gets this rate, without other effects
	// Silent: no port changes its state, so nobody can notice.
	Silent bool
	// Reported: switches report the link's rate; see [Event].
	Reported bool
	// Switch is the node all of whose links the event concerns; 0: it concerns this link only.
	Switch fabric.NodeID
}

// Cuts reports whether the event takes the link, or a direction, down.
func (e LinkEvent) Cuts() bool { return !e.Up && e.Loss == 0 && e.Rate == 0 }

// KnownBefore reports whether an event's link is dead or slow before the collective begins, and the controller has
// learned it from the switches by then: tables and agents know it.
func (r Run) KnownBefore(e LinkEvent) bool {
	return e.At == 0 && e.Detection == 0 && r.Notifier.GNMI() && (e.Cuts() || e.Reported && !e.Up)
}

// LinkEvents returns the events of the links of f in a run with that seed, in order of time. An event of a node or
// of a share of links skips links that are in that state already. It returns nothing for a case whose times are not
// known yet.
func (c Failure) LinkEvents(f *fabric.Fabric, seed uint64) ([]LinkEvent, error) {
	if !c.timesKnown() {
		return nil, nil // the times are unknown
	}
	var out []LinkEvent
	for _, e := range c.Drawn(f, seed) {
		if !e.Action.OfLinks() {
			continue
		}
		links, err := e.Links(f, seed)
		if err != nil {
			return nil, err
		}
		var node fabric.NodeID
		if e.Node != "" {
			if node, err = NodeNamed(f, e.Node); err != nil {
				return nil, err
			}
			if f.Node(node).Tier == fabric.Host {
				node = 0
			}
		}
		for _, l := range links {
			for _, one := range e.linkEvents(l) {
				one.Switch = node
				out = append(out, one)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b LinkEvent) int { return cmp.Compare(a.At, b.At) })
	return withoutIneffective(out), nil
}

// eventsBySeed returns the events in the runs of each seed.
func (c Failure) eventsBySeed(f *fabric.Fabric, seeds Seeds) (map[uint64][]LinkEvent, error) {
	out := make(map[uint64][]LinkEvent, len(seeds))
	random := slices.ContainsFunc(c.Events, func(e Event) bool { return e.Random > 0 || e.Action == Chaos })
	for i, seed := range seeds {
		if i > 0 && !random {
			out[seed] = out[seeds[0]]
			continue
		}
		var err error
		if out[seed], err = c.LinkEvents(f, seed); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// withoutIneffective drops events without effect, and marks those that no port shows.
func withoutIneffective(events []LinkEvent) []LinkEvent {
	type state struct{ down, hurt, reported bool }
	now := map[fabric.LinkID]state{}
	out := events[:0]
	for _, e := range events {
		s := now[e.Link]
		switch {
		case e.Up:
			if !s.down && !s.hurt {
				continue
			}
			e.Silent, e.Reported = !s.down, s.reported
			s = state{}
		case e.Cuts():
			if s.down {
				continue
			}
			s.down = true
		default:
			e.Silent, s.hurt, s.reported = true, true, s.reported || e.Reported
		}
		now[e.Link] = s
		out = append(out, e)
	}
	return out
}

// linkEvents returns an event's effects on one of its links.
func (e Event) linkEvents(l fabric.LinkID) []LinkEvent {
	one := LinkEvent{At: e.At, Link: l, Detection: e.Detection, Direction: e.Direction}
	switch e.Action {
	case Restore:
		one.Up = true
	case Gray:
		one.Loss = e.Loss
	case Degrade:
		one.Rate, one.Reported = e.Rate, e.Reported
	case Flap:
		var out []LinkEvent
		for i := range fabric.Time(e.Times) {
			down, up := one, one
			down.At = e.At + i*e.Period
			up.At, up.Up = down.At+e.Down, true
			out = append(out, down, up)
		}
		return out
	}
	return []LinkEvent{one}
}

// Links returns the links that an event concerns.
func (e Event) Links(f *fabric.Fabric, seed uint64) ([]fabric.LinkID, error) {
	switch {
	case e.Random > 0:
		return randomLinks(f, e.Random, seed), nil
	case e.Link != "":
		l, err := linkNamed(f, e.Link)
		return []fabric.LinkID{l}, err
	}
	id, err := NodeNamed(f, e.Node)
	if err != nil {
		return nil, err
	}
	n := f.Node(id)
	links := make([]fabric.LinkID, n.Ports())
	for p := range links {
		links[p] = n.Link(fabric.PortNo(p + 1))
	}
	return links, nil
}

// randomLinks draws a share of the links between switches, at least one, in order of their numbers. Host links,
// which are numbered first, are not drawn: without planes a host has no other.
func randomLinks(f *fabric.Fabric, share Share, seed uint64) []fabric.LinkID {
	all := f.Links() - f.HostLinks()
	if all == 0 {
		return nil
	}
	count := min(max(1, int(math.Round(float64(share)*float64(all)))), all)
	rng := rand.New(rand.NewPCG(seed, 0x6c696e6b73)) // "links"
	links := make([]fabric.LinkID, 0, count)
	for _, i := range rng.Perm(all)[:count] {
		links = append(links, fabric.LinkID(f.HostLinks()+i))
	}
	slices.Sort(links)
	return links
}
