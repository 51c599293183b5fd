package rollout

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/damping"
	"github.com/ethereal-fabric/ethereal/controller/suspicion"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/goldentest"
)

// scenario is a core, and what it waits for the answers of.
type scenario struct {
	c    *Core
	f    *fabric.Fabric
	now  fabric.Time
	open []Write
}

// TestScenarios runs the text files of testdata, on a leaf-spine of three ToRs and two
// spines. Every command takes at=TIME, and prints what the core wants done then. Commands:
//
//	start [OPTION...]          a new core; started by the next command, its switches have
//	                           their tables. Options: wait (5 s), damping, at-once, audit
//	port NODE PORT up|down     what a switch says
//	link LINK up|down          what both ends of a link say
//	ports NODE                 its ports are known
//	read NODE [empty]          its tables: as they should be, or empty
//	session NODE none|standby|open
//	answer [NODE...]           the writes under way are acknowledged: of those switches
//	refuse NODE                a write failed
//	unsent NODE                a write was not sent
//	drain|undrain LINK [force]
//	behind LINK                who has not acknowledged its state
//	report HOST TOR UPLINK     a path timed out
//	tick
func TestScenarios(t *testing.T) {
	goldentest.Scenarios(t, "testdata", func() func(*datadriven.TestData) (string, error) {
		return (&scenario{}).run
	})
}

func (s *scenario) run(d *datadriven.TestData) (string, error) {
	words, err := goldentest.Words(d, &s.now)
	if err != nil {
		return "", err
	}
	if d.Cmd == "start" {
		return "", s.start(words)
	}
	if err := s.do(d.Cmd, words); err != nil {
		return "", err
	}
	if d.Cmd == "behind" {
		return s.behind(words[0])
	}
	r := s.c.TakeNotices(s.now)
	if len(r.Writes) > 0 {
		return "", fmt.Errorf("%d writes among the news", len(r.Writes))
	}
	rest := s.c.Ready(s.now)
	r.Events = append(r.Events, rest.Events...)
	r.Notices = append(r.Notices, rest.Notices...)
	r.Writes, r.Ports, r.Reads = rest.Writes, rest.Ports, rest.Reads
	return s.print(r), nil
}

func (s *scenario) start(options []string) (err error) {
	if s.f, err = fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 3, Spines: 2, HostsPerToR: 2}); err != nil {
		return err
	}
	cfg := Config{
		Core:       controller.Config{Fabric: s.f, Instance: "test", CarrierV4: controller.UDPSourcePort},
		Suspicion:  &suspicion.Config{Agents: 1},
		Damping:    damping.Config{Off: !slices.Contains(options, "damping")},
		TablesWait: DefaultTablesWait, StageTimeout: DefaultStageTimeout,
		RestoredAtOnce: slices.Contains(options, "at-once"),
	}
	waits := slices.Contains(options, "wait")
	if waits {
		cfg.StartWait = DefaultStartWait
	}
	if slices.Contains(options, "audit") {
		cfg.Audit = 10 * fabric.Second
	}
	s.open = nil
	if s.c, err = New(s.now, cfg); err != nil || waits {
		return err
	}
	for i := range s.f.Switches() {
		id := fabric.NodeID(s.f.Hosts() + i)
		s.c.TablesRead(s.now, id, s.c.Tables().Desired(id), 0)
	}
	s.c.Ready(s.now)
	return nil
}

func (s *scenario) do(cmd string, words []string) error {
	link := func() (fabric.LinkID, error) { return s.f.LinkByName(words[0]) }
	node := func() (fabric.NodeID, error) { return s.f.NodeByName(words[0]) }
	var id fabric.NodeID
	var l fabric.LinkID
	var err error
	switch cmd {
	case "link", "drain", "undrain", "behind":
		l, err = link()
	case "tick", "answer", "report":
	default:
		id, err = node()
	}
	if err != nil {
		return err
	}
	switch cmd {
	case "behind":
	case "tick":
		s.c.Tick(s.now)
	case "port":
		var p int
		if _, err := fmt.Sscan(words[1], &p); err != nil {
			return err
		}
		s.c.PortState(s.now, id, fabric.PortNo(p), words[2] == "up")
	case "link":
		for _, e := range []fabric.End{s.f.Link(l).A, s.f.Link(l).B} {
			s.c.PortState(s.now, e.Node, e.Port, words[1] == "up")
		}
	case "ports":
		s.c.PortsKnown(s.now, id, true)
	case "read":
		es := s.c.Tables().Desired(id)
		if len(words) > 1 {
			es = nil
		}
		s.c.TablesRead(s.now, id, es, 0)
	case "session":
		s.c.Session(s.now, id, map[string]SessionState{"none": NoSession, "standby": Standby, "open": Open}[words[1]])
	case "answer", "refuse", "unsent":
		outcome := map[string]Outcome{"answer": Acknowledged, "refuse": Failed, "unsent": Unsent}[cmd]
		open := s.open
		s.open = nil
		for _, w := range open {
			if len(words) > 0 && !slices.Contains(words, s.f.Name(w.Node)) {
				s.open = append(s.open, w)
				continue
			}
			s.c.Written(s.now, w.ID, outcome)
		}
	case "drain", "undrain":
		_, err = s.c.Drain(s.now, []fabric.LinkID{l}, cmd == "drain", len(words) > 1)
	case "report":
		var host, tor, uplink int
		if _, err := fmt.Sscan(strings.Join(words, " "), &host, &tor, &uplink); err != nil {
			return err
		}
		err = s.c.Report(s.now, suspicion.Report{
			Host: fabric.NodeID(host), DstToR: s.f.ToRID(tor), Dst: suspicion.NoHost, Label: s.f.LabelFor(uplink, 0), Timeouts: 1,
		})
	default:
		err = fmt.Errorf("unknown command %s", cmd)
	}
	return err
}

func (s *scenario) behind(link string) (string, error) {
	id, err := s.f.LinkByName(link)
	if err != nil {
		return "", err
	}
	links := []fabric.LinkID{id}
	out := "behind:"
	for _, n := range s.c.Behind(links, s.c.Tables().SwitchesUsing(links)) {
		out += " " + s.f.Name(n)
	}
	return out + "\n", nil
}

func (s *scenario) print(r Ready) string {
	var b strings.Builder
	for _, e := range r.Events {
		fmt.Fprintln(&b, s.event(e))
	}
	if r.Start != nil {
		fmt.Fprintf(&b, "agents begin with epoch %d, %d links\n", r.Start.GetEpoch(), len(r.Start.GetLinks()))
	}
	for _, u := range r.Notices {
		fmt.Fprintf(&b, "notice %d:", u.GetEpoch())
		for _, l := range u.GetLinks() {
			fmt.Fprintf(&b, " %s up=%v", s.f.LinkName(fabric.LinkID(l.GetLink())), l.GetUp())
		}
		for _, x := range u.GetSuspects() {
			fmt.Fprintf(&b, " %s suspected=%v confirmed=%v", s.f.LinkName(fabric.LinkID(x.GetLink())), x.GetSuspected(), x.GetConfirmed())
		}
		b.WriteByte('\n')
	}
	for _, w := range r.Writes {
		kind := fmt.Sprintf("stage %d", w.Stage)
		if w.Repair {
			kind = "repair"
		}
		fmt.Fprintf(&b, "write %s: %s, %d updates\n", s.f.Name(w.Node), kind, len(w.Updates))
	}
	s.open = append(s.open, r.Writes...)
	for _, id := range r.Reads {
		fmt.Fprintf(&b, "read %s\n", s.f.Name(id))
	}
	if len(r.Probes) > 0 {
		fmt.Fprintf(&b, "%d probes\n", len(r.Probes))
	}
	if at, ok := s.c.Deadline(); ok {
		fmt.Fprintf(&b, "due %v\n", at)
	}
	if !s.c.Idle() {
		b.WriteString("busy\n")
	}
	if b.Len() == 0 {
		return "nothing\n"
	}
	return b.String()
}

func (s *scenario) event(e Event) string {
	port := func(what string) string {
		return fmt.Sprintf("%s: %s port %d up=%v", what, s.f.Name(e.Node), e.Port, e.Up)
	}
	switch e.Kind {
	case PortReported:
		if e.Damped {
			return port("heard and damped")
		}
		return port("heard")
	case Believed:
		return port("believed")
	case FlappingEnded:
		return port("calmed")
	case LinkChanged:
		return fmt.Sprintf("link %s up=%v", s.f.LinkName(e.Link), e.Up)
	case Drained:
		return fmt.Sprintf("drained %s: up=%v", s.f.LinkName(e.Link), e.Up)
	case DrainReverted:
		return "taken back: " + s.f.LinkName(e.Link)
	case Suspected:
		return fmt.Sprintf("suspected %s: up=%v confirmed=%v", s.f.LinkName(e.Link), e.Up, e.Confirmed)
	case Started:
		return "started"
	case Repaired:
		return fmt.Sprintf("repaired %s: %d", s.f.Name(e.Node), e.Count)
	case Refused:
		return "refused by " + s.f.Name(e.Node)
	case Late:
		return "late: " + s.f.Name(e.Node)
	case Changed:
		return fmt.Sprintf("change written: %d writes, %d updates, in %v", e.Change.Switches, e.Change.Updates, e.Change.Written-e.Change.Trigger)
	}
	return "?"
}
