package cabling

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// State is what a cabling check found for a link.
type State uint8

// The states.
const (
	Confirmed State = iota // connected as in the fabric file; frames arrived both ways
	OneWay                 // connected as in the fabric file, but one end does not receive the other's frames
	Miswired               // the cable at one end leads elsewhere
	Silent                 // nothing was received at either end
	Unasked                // neither switch at its ends could send or receive frames for the check
)

var stateNames = [...]string{"confirmed", "one way", "miswired", "silent", "not asked"}

func (s State) String() string { return stateNames[s] }

// MarshalText prints the state's name.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText printed.
func (s *State) UnmarshalText(text []byte) error {
	i := slices.Index(stateNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("cabling: %q is no state of a link", text)
	}
	*s = State(i)
	return nil
}

// Link is what a cabling check found for one link.
type Link struct {
	ID    fabric.LinkID `json:"-"`
	Name  string        `json:"name"`
	State State         `json:"state"`
	// FoundA and FoundB say where the cables at its ends lead, if not to each other.
	FoundA string `json:"found_a,omitempty"`
	FoundB string `json:"found_b,omitempty"`
}

// Fault is one error in the cabling, described for operators.
type Fault struct {
	What   string   `json:"what"`
	Remedy string   `json:"remedy"`
	Links  []string `json:"links,omitempty"` // names of the links concerned
}

// Report is the result of a cabling check.
type Report struct {
	Links   []Link            `json:"links"` // all links of the fabric, by ID
	Faults  []Fault           `json:"faults,omitempty"`
	Unasked map[string]string `json:"unasked,omitempty"` // switches that could not be reached, and the error
}

// OK reports whether every link is confirmed and there are no other faults.
func (r *Report) OK() bool {
	return len(r.Faults)+len(r.Unasked) == 0 && r.Count(Confirmed) == len(r.Links)
}

// Count returns the number of links in a state.
func (r *Report) Count(s State) int {
	n := 0
	for _, l := range r.Links {
		if l.State == s {
			n++
		}
	}
	return n
}

// comparison is a comparison in progress.
type comparison struct {
	f        *fabric.Fabric
	name     Names
	ev       Evidence
	received map[Arrival]bool
	// partner is the other end of a place's cable; places with several are in crowded.
	partner  map[Place]Place
	crowded  map[Place][]Place
	reported map[Place]bool // already named in a fault
	report   Report
}

// Compare compares the frames that a check received with the links of the fabric file. name formats ports.
func Compare(f *fabric.Fabric, ev Evidence, name Names) *Report {
	if name == nil {
		name = PlainNames(f)
	}
	c := &comparison{
		f: f, name: name, ev: ev, received: map[Arrival]bool{}, partner: map[Place]Place{}, crowded: map[Place][]Place{}, reported: map[Place]bool{},
	}
	c.match()
	c.reportStrangers()
	c.reportSharedPorts()
	c.reportLoops()
	c.exchangedNodes()
	c.movedPlugs()
	c.links()
	for id, err := range ev.Unasked {
		if c.report.Unasked == nil {
			c.report.Unasked = map[string]string{}
		}
		c.report.Unasked[f.Name(id)] = err.Error()
	}
	return &c.report
}

// match finds the place at the other end of every cable.
func (c *comparison) match() {
	met := map[Place][]Place{}
	meet := func(p, q Place) {
		if !slices.Contains(met[p], q) {
			met[p] = append(met[p], q)
		}
	}
	for _, h := range c.ev.Received {
		c.received[h] = true
		meet(h.At, h.From)
		meet(h.From, h.At)
	}
	for p, qs := range met {
		slices.SortFunc(qs, comparePlaces)
		if len(qs) > 1 {
			c.crowded[p] = qs
		}
	}
	for p, qs := range met {
		if len(qs) == 1 && len(c.crowded[qs[0]]) == 0 {
			c.partner[p] = qs[0]
		}
	}
}

func comparePlaces(a, b Place) int {
	return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Port, b.Port), cmp.Compare(a.ID, b.ID))
}

// sorted returns the places of a map in order.
func sorted[V any](m map[Place]V) []Place {
	var out []Place
	for p := range m {
		out = append(out, p)
	}
	slices.SortFunc(out, comparePlaces)
	return out
}

func (c *comparison) addFault(what, remedy string, at ...Place) {
	fault := Fault{What: what, Remedy: remedy}
	for _, p := range at {
		c.reported[p] = true
		if l, ok := c.f.LinkAt(p.Node, p.Port); ok && p.Port > 0 {
			if name := c.f.LinkName(l); !slices.Contains(fault.Links, name) {
				fault.Links = append(fault.Links, name)
			}
		}
	}
	c.report.Faults = append(c.report.Faults, fault)
}

// reportStrangers reports unknown senders. They are no fault where the planned neighbour sends too: a host may have an
// LLDP agent beside ours, and so may a switch.
func (c *comparison) reportStrangers() {
	said := map[Place][]string{}
	for _, s := range c.ev.Strangers {
		if _, received := c.partner[s.At]; !received && !slices.Contains(said[s.At], s.Who) {
			said[s.At] = append(said[s.At], s.Who)
		}
	}
	for _, p := range sorted(said) {
		want, ok := plannedPeer(c.f, p)
		remedy := "pull the plug: the fabric has no cable here"
		if ok {
			remedy = "connect it with " + c.name(want)
			if c.f.Node(want.Node).Tier == fabric.Host {
				remedy += "; if that is this machine, start ethereal host agent or tag on it, or name it " + c.f.Name(want.Node)
			}
		}
		c.addFault(fmt.Sprintf("%s leads to %s, which the fabric does not know", c.name(p), strings.Join(said[p], ", ")), remedy, p)
	}
}

// reportSharedPorts reports ports that receive frames of more than one other port.
func (c *comparison) reportSharedPorts() {
	for _, p := range sorted(c.crowded) {
		var names []string
		for _, q := range c.crowded[p] {
			names = append(names, c.name(q))
		}
		c.addFault(fmt.Sprintf("%s receives frames of %s: more than one", c.name(p), strings.Join(names, " and ")),
			"connect it by one cable, with no bridge, tap or wrongly broken-out port between", p)
	}
}

// reportLoops reports ports that receive their own frames.
func (c *comparison) reportLoops() {
	for _, p := range sorted(c.partner) {
		if c.partner[p] == p {
			c.addFault(c.name(p)+" receives its own frames", "take the loopback plug or the port's loopback mode away", p)
		}
	}
}

// pluggedAsPlanned reports whether a port's cable leads to the planned port.
func (c *comparison) pluggedAsPlanned(p Place) bool {
	q, found := c.partner[p]
	want, planned := plannedPeer(c.f, p)
	return found && planned && q == want
}

// wrongPlugs returns the places whose cables lead elsewhere and that no fault names yet.
func (c *comparison) wrongPlugs() []Place {
	var out []Place
	for _, p := range sorted(c.partner) {
		if !c.reported[p] && !c.pluggedAsPlanned(p) {
			out = append(out, p)
		}
	}
	return out
}

// links writes the state of every link.
func (c *comparison) links() {
	for i := range c.f.Links() {
		l := c.f.Link(fabric.LinkID(i))
		a, b := PlaceOf(l.A), PlaceOf(l.B)
		v := Link{ID: l.ID, Name: c.f.LinkName(l.ID), FoundA: c.misplugged(a), FoundB: c.misplugged(b)}
		host := c.f.Node(a.Node).Tier == fabric.Host
		switch {
		case v.FoundA != "" || v.FoundB != "":
			v.State = Miswired
		case c.pluggedAsPlanned(a):
			if !host && (!c.received[Arrival{a, b}] || !c.received[Arrival{b, a}]) {
				v.State = OneWay
				c.oneWay(a, b)
			}
		case (host || c.ev.Unasked[a.Node] != nil) && c.ev.Unasked[b.Node] != nil:
			v.State = Unasked
		default:
			v.State = Silent
			c.reportSilentLink(a, b, host)
		}
		c.report.Links = append(c.report.Links, v)
	}
}

// misplugged returns the port to which a port's cable leads; "" if that is the planned one.
func (c *comparison) misplugged(p Place) string {
	if qs := c.crowded[p]; len(qs) > 0 {
		return "several"
	}
	if q, ok := c.partner[p]; ok && !c.pluggedAsPlanned(p) {
		return c.name(q)
	}
	return ""
}

func (c *comparison) oneWay(a, b Place) {
	deaf, mute := a, b
	if c.received[Arrival{a, b}] {
		deaf, mute = b, a
	}
	if c.ev.Unasked[deaf.Node] != nil {
		return // as far as known, the link is as planned
	}
	c.addFault(fmt.Sprintf("%s does not receive %s, though the other way works", c.name(deaf), c.name(mute)),
		"clean or replace the fibre that leads there, or its transceivers", a, b)
}

func (c *comparison) reportSilentLink(a, b Place, host bool) {
	if c.reported[a] || c.reported[b] {
		return
	}
	var down []string
	for _, p := range []Place{a, b} {
		if c.ev.Down[p] {
			down = append(down, c.name(p))
		}
	}
	what, remedy := "nothing is received", "see that the cable is plugged in at both ends and that no filter drops LLDP (EtherType 0x88cc)"
	switch {
	case len(down) > 0:
		what, remedy = strings.Join(down, " and ")+" down", "plug the cable in, or enable the port; compare speed, lanes and FEC of both ends"
	case host:
		remedy = "start ethereal host agent or tag on " + c.f.Name(a.Node) + ", which answers LLDP, or lldpd; if it runs, see that its interface is the one that is cabled"
	}
	c.addFault(fmt.Sprintf("%s to %s: %s", c.name(a), c.name(b), what), remedy, a, b)
}
