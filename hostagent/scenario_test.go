package hostagent

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// TestScenarios runs the text files in testdata/scenarios. Each command is an
// event; what follows it is what the core wants done. Run with -rewrite to
// write what it says now.
//
//	new k=4|leafspine=(tors,spines,hosts) host=h0 [memory=100ms] [burst=N] [asks] [wait=200ms]  unshuffled, without
//	jitter
//	post at=1us      flows, one a line: DST BYTES [xCOUNT], to consecutive hosts
//	acked at= qp= bytes= / done at= qp= / timeout at= qp=
//	quench at= switch=tor0 to=agg1 epoch=1 dst=h8     (the port of switch towards to)
//	update at= [snapshot] [instance=a]  link states, one a line: LINK up|down|suspected|clear|RATE EPOCH
//	lost at= qp= [packets=] [acks=] [since=] / congested at= peer=h8 label=3 [inbound]
//	overdue at= qp= [since=] [probes=] / answered at= peer=h8 id=
//	round at= [lost=1]    a round of probes, of which so many are lost and retransmitted; what is done when it is over
//	tick at= / paths dst=h8 / respond at= peer=h8 label=3 [rerouted] / load / stats
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		s := new(scenario)
		datadriven.RunTest(t, path, s.run)
	})
}

type scenario struct {
	f *fabric.Fabric
	c *Core
}

func (s *scenario) run(t *testing.T, d *datadriven.TestData) string {
	at := fabric.Time(0)
	if d.HasArg("at") {
		at = s.time(t, d, "at")
	}
	switch d.Cmd {
	case "new":
		return s.create(t, d)
	case "post":
		if err := s.c.Post(at, s.flows(t, d.Input)); err != nil {
			return err.Error() + "\n"
		}
	case "acked":
		s.c.Acked(at, QP(s.number(t, d, "qp")), s.number(t, d, "bytes"))
	case "done":
		s.c.Done(at, QP(s.number(t, d, "qp")))
	case "timeout":
		s.c.Timeout(at, QP(s.number(t, d, "qp")))
	case "lost":
		l := Loss{Packets: s.count(t, d, "packets"), Acks: s.count(t, d, "acks"), Since: at}
		if d.HasArg("since") {
			l.Since = s.time(t, d, "since")
		}
		s.c.Lost(at, QP(s.number(t, d, "qp")), l)
	case "overdue":
		o := Overdue{Since: at, Probes: s.count(t, d, "probes")}
		if d.HasArg("since") {
			o.Since = s.time(t, d, "since")
		}
		s.c.Overdue(at, QP(s.number(t, d, "qp")), o)
	case "answered":
		s.c.Answered(at, s.node(t, d, "peer"), uint32(s.number(t, d, "id")))
	case "congested":
		s.c.Congested(at, s.node(t, d, "peer"), fabric.Label(s.number(t, d, "label")), d.HasArg("inbound"))
	case "round": // of probes: all arrive but those lost, at a time
		return s.round(t, d, at)
	case "quench":
		return fmt.Sprintln(s.c.Quench(at, s.quench(t, d))) + s.ready()
	case "update":
		s.c.Update(at, s.update(t, d))
	case "tick":
		s.c.Tick(at)
	case "paths":
		return fmt.Sprintln(s.c.GoodPaths(s.node(t, d, "dst")))
	case "respond":
		return fmt.Sprintln(s.c.ResponderLabel(at, s.node(t, d, "peer"), fabric.Label(s.number(t, d, "label")), d.HasArg("rerouted")))
	case "load":
		return s.load()
	case "stats":
		return fmt.Sprintf("%+v\n", s.c.Stats())
	default:
		t.Fatalf("%s: unknown command %q", d.Pos, d.Cmd)
	}
	checkInvariants(t, s.c)
	return s.ready()
}

func (s *scenario) round(t *testing.T, d *datadriven.TestData, at fabric.Time) string {
	s.c.Tick(at)
	lost := 0
	if d.HasArg("lost") {
		d.ScanArgs(t, "lost", &lost)
	}
	to := map[string]int{}
	for i, p := range slices.Clone(s.c.Ready().Open) {
		if p.Bytes != 0 {
			t.Fatalf("%s: queue pair %d is no probe", d.Pos, p.QP)
		}
		to[fmt.Sprintf("%s label %d", s.f.Name(p.Dst), p.Label)]++
		if i < lost {
			s.c.Lost(at, p.QP, Loss{Packets: 1, Since: at})
		}
		s.c.Done(at, p.QP)
	}
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(to)) {
		fmt.Fprintf(&b, "%d probes to %s\n", to[k], k)
	}
	checkInvariants(t, s.c)
	return b.String() + s.ready()
}

func (s *scenario) create(t *testing.T, d *datadriven.TestData) string {
	spec := fabric.Spec{Kind: fabric.KindFatTree}
	if d.HasArg("leafspine") {
		spec.Kind = fabric.KindLeafSpine
		d.ScanArgs(t, "leafspine", &spec.ToRs, &spec.Spines, &spec.HostsPerToR)
	} else {
		d.ScanArgs(t, "k", &spec.K)
	}
	s.f = mustFabric(t, spec)
	cfg := Config{Fabric: s.f, Host: s.node(t, d, "host"), Unshuffled: true, StartJitter: -1}
	if d.HasArg("memory") {
		cfg.FailedPathMemory = s.time(t, d, "memory")
	}
	cfg.Asks, cfg.Losses.Unmarked = d.HasArg("asks"), d.HasArg("unmarked")
	if d.HasArg("wait") {
		cfg.AskWait = s.time(t, d, "wait")
	}
	if d.HasArg("burst") {
		d.ScanArgs(t, "burst", &cfg.QuenchBurst)
	}
	s.c = mustCore(t, cfg)
	return ""
}

func (s *scenario) ready() string {
	var b strings.Builder
	r := s.c.Ready()
	for _, p := range r.Open {
		label := "no label"
		if p.Labelled {
			label = fmt.Sprintf("label %d", p.Label)
		}
		fmt.Fprintf(&b, "open qp%d %s [%d,%d) %s", p.QP, s.f.Name(p.Dst), p.Offset, p.Offset+p.Bytes, label)
		if p.Start != s.c.now {
			fmt.Fprintf(&b, " start %v", p.Start)
		}
		b.WriteByte('\n')
	}
	for _, f := range r.Flip {
		from := "alive"
		if f.Dead {
			from = "dead"
		}
		fmt.Fprintf(&b, "flip qp%d %d -> %d %v (%s)\n", f.QP, f.From, f.To, f.Reason, from)
	}
	for _, qp := range r.Resend {
		fmt.Fprintf(&b, "resend qp%d\n", qp)
	}
	for _, a := range r.Ask {
		fmt.Fprintf(&b, "ask%d %s label %d\n", a.ID, s.f.Name(a.Dst), a.Label)
	}
	for _, f := range r.Failed {
		fmt.Fprintf(&b, "failed %s of %s label %d\n", s.f.Name(f.Dst), s.f.Name(f.DstToR), f.Label)
	}
	if at, ok := s.c.Deadline(); ok {
		fmt.Fprintf(&b, "deadline %v\n", at)
	}
	if b.Len() == 0 {
		return "nothing\n"
	}
	return b.String()
}

func (s *scenario) load() string {
	var b strings.Builder
	for _, d := range s.c.destinations {
		for p, n := range d.bytes {
			if n != 0 {
				fmt.Fprintf(&b, "%s label %d: %d\n", s.f.Name(d.tor), s.c.label(d, p), n)
			}
		}
	}
	return b.String() + fmt.Sprintln("uplinks", s.c.uplinkBytes)
}

func (s *scenario) flows(t *testing.T, input string) (fs []Flow) {
	for line := range strings.Lines(input) {
		words := strings.Fields(line)
		dst, err := s.f.NodeByName(words[0])
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.ParseInt(words[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		count := 1
		if len(words) > 2 {
			if _, err := fmt.Sscanf(words[2], "x%d", &count); err != nil {
				t.Fatal(err)
			}
		}
		for i := range count {
			fs = append(fs, Flow{ID: uint64(len(fs)), Dst: dst + fabric.NodeID(i), Bytes: n})
		}
	}
	return fs
}

func (s *scenario) update(t *testing.T, d *datadriven.TestData) *statepb.Update {
	u := &statepb.Update{Snapshot: d.HasArg("snapshot"), Heartbeat: d.HasArg("heartbeat")}
	if d.HasArg("instance") {
		d.ScanArgs(t, "instance", &u.Instance)
	}
	for line := range strings.Lines(d.Input) {
		var name, state string
		var epoch uint64
		if _, err := fmt.Sscan(line, &name, &state, &epoch); err != nil {
			t.Fatalf("%s: %q: %v", d.Pos, line, err)
		}
		id, err := s.f.LinkByName(name)
		if err != nil {
			t.Fatal(err)
		}
		switch state {
		case "suspected", "clear":
			u.Suspects = append(u.Suspects, &statepb.Suspect{Link: uint32(id), Suspected: state == "suspected", Epoch: epoch})
		case "up", "down":
			u.Links = append(u.Links, &statepb.LinkState{Link: uint32(id), Up: state == "up", Epoch: epoch})
		default:
			var rate fabric.Rate
			if err := rate.UnmarshalText([]byte(state)); err != nil {
				t.Fatalf("%s: %v", d.Pos, err)
			}
			u.Rates = append(u.Rates, &statepb.LinkRate{Link: uint32(id), BitsPerSecond: uint64(rate), Epoch: epoch})
		}
		u.Epoch = max(u.Epoch, epoch)
	}
	return u
}

func (s *scenario) quench(t *testing.T, d *datadriven.TestData) frame.Quench {
	q := frame.Quench{Switch: s.node(t, d, "switch"), Epoch: uint32(s.number(t, d, "epoch")), Dst: s.f.HostAddr4(s.node(t, d, "dst"))}
	id, ok := s.f.LinkBetween(q.Switch, s.node(t, d, "to"))
	if !ok {
		t.Fatalf("%s: no such link", d.Pos)
	}
	l := s.f.Link(id)
	q.Port = l.A.Port
	if l.B.Node == q.Switch {
		q.Port = l.B.Port
	}
	if d.HasArg("v6") {
		q.Dst = s.f.HostAddr6(s.node(t, d, "dst"))
	}
	if d.HasArg("foreign") {
		q.Dst = netip.MustParseAddr("192.0.2.1")
	}
	return q
}

func (s *scenario) time(t *testing.T, d *datadriven.TestData, key string) (v fabric.Time) {
	var text string
	d.ScanArgs(t, key, &text)
	if err := v.UnmarshalText([]byte(text)); err != nil {
		t.Fatalf("%s: %v", d.Pos, err)
	}
	return v
}

func (s *scenario) number(t *testing.T, d *datadriven.TestData, key string) (n int64) {
	d.ScanArgs(t, key, &n)
	return n
}

func (s *scenario) count(t *testing.T, d *datadriven.TestData, key string) int {
	if !d.HasArg(key) {
		return 0
	}
	return int(s.number(t, d, key))
}

func (s *scenario) node(t *testing.T, d *datadriven.TestData, key string) fabric.NodeID {
	var name string
	d.ScanArgs(t, key, &name)
	id, err := s.f.NodeByName(name)
	if err != nil {
		t.Fatalf("%s: %v", d.Pos, err)
	}
	return id
}

// checkInvariants checks what holds between any two calls.
func checkInvariants(t interface{ Fatalf(string, ...any) }, c *Core) {
	listed := 0
	uplinks := make([]int64, c.uplinkSlots)
	for _, d := range c.destinations {
		good := d.goodPaths(nil)
		if len(good) == 0 {
			t.Fatalf("no good path to %s", c.fabric.Name(d.tor))
		}
		bytes := make([]int64, d.paths)
		for p := d.first; p != nil; p = p.next {
			listed++
			if !slices.Contains(good, int(p.path)) {
				t.Fatalf("qp %d stays on path %d; good are %v", p.qp, p.path, good)
			}
			// One with nothing left to send waits until pieces are moved next.
			if p.left > 0 && p.path != p.home && slices.Contains(good, int(p.home)) {
				t.Fatalf("qp %d stays on path %d though its home %d is good", p.qp, p.path, p.home)
			}
			bytes[p.path] += p.left
			uplinks[d.uplink(int(p.path))] += p.left
		}
		if !slices.Equal(bytes, d.bytes) {
			t.Fatalf("outstanding to %s is %v, counted %v", c.fabric.Name(d.tor), bytes, d.bytes)
		}
	}
	if !slices.Equal(uplinks, c.uplinkBytes) {
		t.Fatalf("outstanding by uplink is %v, counted %v", uplinks, c.uplinkBytes)
	}
	for p := range c.pieces.all() {
		if p.dst == nil {
			listed++
		}
	}
	if listed != c.pieces.live {
		t.Fatalf("%d queue pairs are listed, %d known", listed, c.pieces.live)
	}
	if !slices.IsSorted(c.deadLinks) {
		t.Fatalf("dead links out of order: %v", c.deadLinks)
	}
	for id, l := range c.links {
		if _, listed := slices.BinarySearch(c.deadLinks, id); listed != (l.evidence != 0) {
			t.Fatalf("link %d: listed dead %v, is %v", id, listed, (l.evidence != 0))
		}
	}
}
