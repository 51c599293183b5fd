package verify

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/fabric"
)

// Kind is the property that a walk violates.
type Kind string

// The kinds.
const (
	Loop      Kind = "loop"       // the packet returns to a switch where it was before
	BlackHole Kind = "black hole" // the packet is lost although a path is alive, or sent over a dead link
	WrongPath Kind = "wrong path" // it leaves its label's path although that is alive
	WrongHost Kind = "wrong host" // the packet is delivered to another host
	OnDrained Kind = "on drained" // it crosses a drained link although none on its way has failed
	Silent    Kind = "silent"     // the packet is dropped at a dead port of a switch that sends no quench
	ShutOut   Kind = "shut out"   // a ToR wrongly drops a packet as forged
)

// NoLabel is the label of packets without one.
const NoLabel = -1

// Walk is the path of one packet through the switches' tables, and its end.
type Walk struct {
	Src    fabric.NodeID // ToR at which the packet starts
	Host   fabric.NodeID // the destination; of ShutOut the sender
	IPv6   bool
	Outer  bool // in an outer header, with the micro segments of Label
	Label  int  // label of the packet, or NoLabel
	Failed fabric.LinkID
	Steps  []Step
	End    string
}

// NoLink is Walk.Failed without a further failed link.
const NoLink fabric.LinkID = -1

// Step is what one switch does with the packet: the port, and the table entries used.
type Step struct {
	Node     fabric.NodeID
	Port     fabric.PortNo // port by which the packet leaves the switch; 0: none
	Rerouted bool          // the switch sent it around a dead uplink
	Entries  []controller.Entry
}

// Problem is a walk that violates a property: a counter-example.
type Problem struct {
	Kind Kind
	Walk Walk
}

// Format prints a problem with its walk, one step per line.
func (p Problem) Format(f *fabric.Fabric) string {
	var b strings.Builder
	w := p.Walk
	family, label := "IPv4", "no label"
	if w.IPv6 {
		family = "IPv6"
	}
	if w.Label != NoLabel {
		label = fmt.Sprintf("label %d", w.Label)
	}
	if w.Outer {
		label += " by micro segments"
	}
	if p.Kind == ShutOut {
		fmt.Fprintf(&b, "%s: %s at %s, %s", p.Kind, f.Name(w.Host), f.Name(w.Src), family)
	} else {
		fmt.Fprintf(&b, "%s: %s to %s, %s, %s", p.Kind, f.Name(w.Src), f.Name(w.Host), family, label)
	}
	if w.Failed != NoLink {
		fmt.Fprintf(&b, ", with %s failed", f.LinkName(w.Failed))
	}
	b.WriteString("\n")
	for _, s := range w.Steps {
		fmt.Fprintf(&b, "  %s:", f.Name(s.Node))
		for i, e := range s.Entries {
			if i > 0 {
				b.WriteString(";")
			}
			fmt.Fprintf(&b, " %v", e)
		}
		switch {
		case s.Port == 0:
		case s.Rerouted:
			fmt.Fprintf(&b, "; rerouted to port %d", s.Port)
		default:
			fmt.Fprintf(&b, "; port %d", s.Port)
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "  %s\n", w.End)
	return b.String()
}

// walkEnd describes the end of a walk; the text is formatted only for walks that are shown.
type walkEnd struct {
	format string
	number int           // for the format's %d, if it has one
	node   fabric.NodeID // for its %s, if it has one
}

func (e walkEnd) text(f *fabric.Fabric) string {
	s := strings.Replace(e.format, "%d", strconv.Itoa(e.number), 1)
	return strings.Replace(s, "%s", f.Name(e.node), 1)
}

// maxSteps exceeds the number of switches on any path without a loop.
const maxSteps = 8

// step is a Step without the fields for display.
type step struct {
	node     fabric.NodeID
	port     fabric.PortNo
	rerouted bool
	entries  [2]*controller.Entry
}

// outcome is the outcome of a walk.
type outcome uint8

const (
	delivered      outcome = iota
	sourceNotified         // dropped at a dead port, and the source is notified
	unnotified             // dropped at a dead port of a switch that notifies no source
	silent                 // dropped at a dead port without notification, though there should be one
	looped
	lost // dropped because no entry matches, or sent into a dead link
)

// walker follows packets. It calls ended at the end of each, which returns false to stop.
type walker struct {
	f      *fabric.Fabric
	tables []*tables // by NodeID - Hosts
	up     []bool    // by link
	failed fabric.LinkID
	ended  func(w *walker, fate outcome, host fabric.NodeID) bool

	dst          *destination
	routes       []*controller.Entry // by switch, towards dst; nil: not looked up, or none
	label        int
	encapsulated bool             // it still has an outer header
	sid          controller.Value // its destination
	decapsulated bool             // its outer header was removed, and it has no label
	n            int
	steps        [maxSteps]step
	end          walkEnd
	stop         bool
}

func (w *walker) linkUp(id fabric.LinkID) bool { return w.up[id] && id != w.failed }

// walk follows the packets that enter at a ToR through a host's port; sid is the destination of their outer header,
// or nil.
func (w *walker) walk(src fabric.NodeID, dst *destination, label int, sid *controller.Value) {
	if w.dst == nil || w.dst.addr != dst.addr {
		clear(w.routes)
	}
	w.dst, w.label, w.n, w.stop = dst, label, 0, false
	w.encapsulated, w.decapsulated = sid != nil, false
	if w.encapsulated {
		w.sid = *sid
	}
	w.ingress(src, 1)
}

func (w *walker) finish(f outcome, host fabric.NodeID, end walkEnd) {
	w.end = end
	if !w.stop && !w.ended(w, f, host) {
		w.stop = true
	}
}

// ingress simulates a switch's ingress for a packet that arrives at port in.
func (w *walker) ingress(node fabric.NodeID, in fabric.PortNo) {
	if w.stop {
		return
	}
	if w.n == maxSteps {
		w.finish(looped, 0, walkEnd{format: "more switches than any path has"})
		return
	}
	for i := range w.n {
		if w.steps[i].node == node {
			w.finish(looped, 0, walkEnd{format: "back at %s", node: node})
			return
		}
	}
	t := w.tables[int(node)-w.f.Hosts()]
	s := &w.steps[w.n]
	*s = step{node: node}
	w.n++
	defer func() { w.n-- }()
	var r *controller.Entry
	if w.encapsulated {
		before := w.sid
		defer func() { w.sid = before }()
		w.sid = t.shiftSegments(w.sid)
		r = t.route(w.sid, 1)
	} else if r = w.routes[int(node)-w.f.Hosts()]; r == nil {
		r = t.route(w.dst.value, w.dst.family)
		w.routes[int(node)-w.f.Hosts()] = r
	}
	if r == nil {
		w.finish(lost, 0, walkEnd{format: "no route"})
		return
	}
	s.entries[0] = r
	switch r.Action {
	case controller.Deliver, controller.ForwardDown:
		w.egress(t, s, in, fabric.PortNo(r.Args[0]), false)
	case controller.ForwardUplink:
		w.egress(t, s, in, fabric.PortNo(r.Args[0]), true)
	case controller.ForwardUp:
		w.forwardUp(t, s, in, r.Args[0])
	default:
		w.finish(lost, 0, walkEnd{format: "discarded"})
	}
}

func (w *walker) forwardUp(t *tables, s *step, in fabric.PortNo, group uint64) {
	if w.label != NoLabel && !w.decapsulated && t.carrier[w.dst.family] != controller.NoAction {
		if e := t.label(fabric.Label(w.label)); e != nil {
			s.entries[1] = e
			w.egress(t, s, in, fabric.PortNo(e.Args[0]), true)
			return
		}
	}
	g := t.group(group)
	if g == nil {
		w.finish(lost, 0, walkEnd{format: "no ECMP group %d", number: int(group)})
		return
	}
	s.entries[1] = g
	for _, m := range g.Members {
		w.egress(t, s, in, m.Port, true)
	}
}

// egress simulates the program's steps after a port is chosen.
func (w *walker) egress(t *tables, s *step, in, port fabric.PortNo, upward bool) {
	link, ok := w.f.LinkAt(s.node, port)
	switch {
	case !ok:
		w.finish(lost, 0, walkEnd{format: "there is no port %d", number: int(port)})
		return
	case w.linkUp(link):
		w.crossLink(s, port, link, false)
		return
	}
	// The port's liveness register is set: the source is notified, by a clone of the packet that returns through
	// the ingress port.
	found := false
	if upward && !t.noQuench {
		dead := w.deadUplinks(t, s.node)
		for i := range t.uplinks {
			p, ok := t.port[i]
			if !ok || dead&(1<<i) != 0 {
				continue
			}
			found = true
			link, ok := w.f.LinkAt(s.node, p)
			if !ok || !w.linkUp(link) {
				s.port, s.rerouted = p, true
				w.finish(lost, 0, walkEnd{format: "rerouted into dead port %d", number: int(p)})
				continue
			}
			outer, bare := w.encapsulated, w.decapsulated
			w.encapsulated, w.decapsulated = false, bare || outer // a rerouted packet loses its outer header
			w.crossLink(s, p, link, true)
			w.encapsulated, w.decapsulated = outer, bare
		}
	}
	s.port, s.rerouted = port, false
	if !found {
		f := silent
		switch {
		case t.noQuench:
			f = unnotified
		case t.quench && t.clones[cloneSession(in)] == in:
			f = sourceNotified
		}
		w.finish(f, 0, walkEnd{"dropped at dead port %d of %s", int(port), s.node})
	}
}

// cloneSession returns the session that answers through the ingress port.
func cloneSession(in fabric.PortNo) uint64 { return 512 + uint64(in) }

// deadUplinks returns the register that port events write, by uplink index.
func (w *walker) deadUplinks(t *tables, node fabric.NodeID) (dead uint64) {
	n := w.f.Node(node)
	for p := n.FirstUplink(); int(p) <= n.Ports(); p++ {
		if i, ok := t.uplink[p]; ok && i < 64 && !w.linkUp(n.Link(p)) {
			dead |= 1 << i
		}
	}
	return dead
}

func (w *walker) crossLink(s *step, port fabric.PortNo, link fabric.LinkID, rerouted bool) {
	s.port, s.rerouted = port, rerouted
	peer := w.f.Link(link).Peer(s.node)
	if w.f.Node(peer.Node).Tier == fabric.Host {
		w.finish(delivered, peer.Node, walkEnd{format: "delivered to %s", node: peer.Node})
		return
	}
	w.ingress(peer.Node, peer.Port)
}
