package importer

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/workload"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// trigger is a trigger of htsim: what flows start, and when.
type trigger struct {
	kind    string // oneshot, multishot, barrier; "": named by a flow and not yet by its own line
	count   int64  // of a barrier
	line    int
	targets []int // flows that it starts
}

// matrix is a connection matrix while it is read.
type matrix struct {
	*inputFile
	counts   map[string]int64 // of the header
	found    map[string]int64
	flows    []workload.Flow
	triggers map[int64]*trigger
	failures []failedLink
	starts   []float64 // of the flows, as the file has them
}

// failedLink is a link of an aggregation switch that fails.
type failedLink struct {
	line, node, link int
	tier             string
}

// readHtsimMatrix reads a connection matrix as htsim's ConnectionMatrix::load does. Starts are in microseconds for
// htsim_uec and htsim_swift, in picoseconds for the others. A flow that
// waits for a trigger waits for an event here: a oneshot starts all its flows when it is first activated, a barrier at
// the activation of its count, and a multishot one flow at each activation.
func readHtsimMatrix(f *inputFile, o Options, into *Imported) error {
	m := &matrix{inputFile: f, counts: map[string]int64{}, found: map[string]int64{}, triggers: map[int64]*trigger{}}
	if err := f.lines(m.line); err != nil {
		return err
	}
	for _, what := range []string{"Connections", "Triggers", "Failures"} {
		if m.counts[what] != m.found[what] {
			return f.fail(0, "%s %d, and the file has %d; write that number", what, m.counts[what], m.found[what])
		}
	}
	nodes := m.counts["Nodes"]
	if nodes < 2 || len(m.flows) == 0 {
		return f.fail(0, "Nodes %d and %d connections; write at least 2 nodes and 1 connection", nodes, len(m.flows))
	}
	if err := m.events(); err != nil {
		return err
	}
	m.times(o.Starts)
	kept := m.flows[:0]
	for _, fl := range m.flows {
		if fl.From != fl.To {
			kept = append(kept, fl)
		}
	}
	into.Flows, into.Ranks = kept, int(nodes)
	return m.nameCutLinks(into)
}

func (m *matrix) line(line int, w []string) error {
	switch key := w[0]; {
	case strings.HasPrefix(key, "#"):
		return nil
	case key == "Nodes", key == "Connections", key == "Triggers", key == "Failures":
		if len(w) < 2 {
			return m.fail(line, "%s has no value; write a number behind it", key)
		}
		n, err := m.number(line, key, w[1], 0, map[bool]int64{true: collective.MaxRanks, false: math.MaxInt32}[key == "Nodes"])
		m.counts[key] = n
		return err
	case strings.Contains(key, "->"):
		m.found["Connections"]++
		return m.connection(line, w)
	case key == "trigger":
		m.found["Triggers"]++
		return m.trigger(line, w[1:])
	case key == "failure":
		m.found["Failures"]++
		return m.failure(line, w[1:])
	}
	return m.fail(line, "%q is unknown; write SRC->DST, trigger or failure", w[0])
}

// connection reads "0->5 id 1 start 0 size 2000000 send_done_trigger 1".
func (m *matrix) connection(line int, w []string) error {
	from, to, _ := strings.Cut(w[0], "->")
	fl := workload.Flow{}
	for _, end := range []struct {
		text string
		into *int
	}{{from, &fl.From}, {to, &fl.To}} {
		n, err := m.number(line, "a node", end.text, 0, m.counts["Nodes"]-1)
		if err != nil {
			return err
		}
		*end.into = int(n)
	}
	var id, waits int64
	started, start := false, 0.0
	for i := 1; i < len(w); i++ {
		key := w[i]
		if i++; i >= len(w) {
			return m.fail(line, "%s has no value; write one behind it", key)
		}
		if key == "start" {
			var err error
			if start, err = m.decimal(line, key, w[i], float64(1000*fabric.Second)); err != nil {
				return err
			}
			started = true
			continue
		}
		n, err := strconv.ParseInt(w[i], 10, 64)
		if key == "msg" && err != nil {
			i-- // a flag without a value
			n, err = 0, nil
		}
		if err != nil || n < 0 || n > math.MaxInt32 {
			return m.fail(line, "%s is %q; write a number of 0 to %d", key, w[i], math.MaxInt32)
		}
		switch key {
		case "size":
			fl.Bytes = fabric.Bytes(n)
		case "id":
			id = n
		case "trigger":
			waits = n
		case "send_done_trigger":
			fl.Sent = event(n)
		case "recv_done_trigger":
			fl.Received = event(n)
		case "prio":
			m.countNotCarried(line, "priorities of flows are left out", w[0])
		case "msg":
			m.countNotCarried(line, "messages of one connection are flows of their own", w[0])
		default:
			return m.fail(line, "%q is unknown; write id, start, trigger, size, send_done_trigger, recv_done_trigger, prio or msg", key)
		}
	}
	switch {
	case started == (waits != 0):
		return m.fail(line, "a flow needs start or trigger, and not both; write one")
	case fl.Bytes == 0:
		return m.fail(line, "the flow has no size; write size and a number of bytes")
	case waits != 0 && id == 0:
		return m.fail(line, "a flow with a trigger needs an id; write id and a number above 0")
	case fl.From == fl.To:
		if waits != 0 || fl.Sent != "" || fl.Received != "" {
			return m.fail(line, "a flow from a node to itself has a trigger; leave the flow out")
		}
		m.countNotCarried(line, "flows from a node to itself are left out", w[0])
	}
	if waits != 0 {
		t := m.triggers[waits]
		if t == nil {
			t = &trigger{line: line}
			m.triggers[waits] = t
		}
		fl.After = event(waits)
		t.targets = append(t.targets, len(m.flows))
	}
	m.flows, m.starts = append(m.flows, fl), append(m.starts, start)
	return nil
}

// times sets the flows' start times, which are in the unit, or in the one that is likely: no simulation lasts a second.
func (m *matrix) times(unit string) {
	most := slices.Max(m.starts)
	if unit == "" {
		unit = "us"
		if most >= 1e6 {
			unit = "ps"
		}
		if most > 0 {
			m.notes.add("start times are taken for "+unit+"; htsim_uec and htsim_swift read us, htsim_ndp, _roce, _eqds and _hpcc ps: see --starts", "")
		}
	}
	for i, s := range m.starts {
		if unit == "us" {
			s = min(s, 1e9) * float64(fabric.Microsecond)
		}
		m.flows[i].At = fabric.Time(math.Round(s))
	}
}

// event names the event of a trigger. Trigger 0 means none.
func event(trigger int64) string {
	if trigger == 0 {
		return ""
	}
	return fmt.Sprintf("t%d", trigger)
}

// trigger reads "id 3 barrier count 16".
func (m *matrix) trigger(line int, w []string) error {
	t := trigger{line: line}
	var id int64
	for i := 0; i < len(w); i++ {
		switch w[i] {
		case "oneshot", "multishot", "barrier":
			if t.kind != "" {
				return m.fail(line, "a trigger is %s and %s; write one", t.kind, w[i])
			}
			t.kind = w[i]
		case "id", "count":
			if i+1 == len(w) {
				return m.fail(line, "%s has no value; write a number behind it", w[i])
			}
			n, err := m.number(line, w[i], w[i+1], 1, math.MaxInt32)
			if err != nil {
				return err
			}
			if w[i] == "id" {
				id = n
			} else {
				t.count = n
			}
			i++
		default:
			return m.fail(line, "%q is unknown; write id, count, oneshot, multishot or barrier", w[i])
		}
	}
	if id == 0 || t.kind == "" {
		return m.fail(line, "a trigger needs an id and one of oneshot, multishot and barrier; write both")
	}
	if old := m.triggers[id]; old != nil {
		if old.kind != "" {
			return m.fail(line, "trigger %d is given twice; keep one", id)
		}
		t.targets = old.targets
	}
	m.triggers[id] = &t
	return nil
}

// events sets the counts of flows that wait for triggers.
func (m *matrix) events() error {
	raised := map[string]int{}
	for _, fl := range m.flows {
		for _, e := range []string{fl.Sent, fl.Received} {
			raised[e]++
			if n, _ := strconv.ParseInt(strings.TrimPrefix(e, "t"), 10, 64); e != "" && m.triggers[n] == nil {
				return m.fail(0, "trigger %d is activated and not given; write a line trigger id %d", n, n)
			}
		}
	}
	for id, t := range m.triggers {
		switch {
		case t.kind == "":
			return m.fail(t.line, "trigger %d is waited for and not given; write a line trigger id %d", id, id)
		case t.kind == "barrier" && t.count == 0:
			return m.fail(t.line, "a barrier needs a count; write count and a number")
		}
		for i, flow := range t.targets {
			count := 1
			switch t.kind {
			case "barrier":
				count = int(t.count)
			case "multishot":
				count = i + 1
			}
			if count > raised[event(id)] {
				return m.fail(t.line, "trigger %d is activated %d times, and flow %d->%d needs %d; let more flows activate it",
					id, raised[event(id)], m.flows[flow].From, m.flows[flow].To, count)
			}
			if count > 1 {
				m.flows[flow].Count = count
			}
		}
	}
	return nil
}

// failure reads "switch_type AGG switch_id 3 link_id 1".
func (m *matrix) failure(line int, w []string) error {
	x := failedLink{line: line}
	for i := 0; i+1 < len(w); i += 2 {
		if w[i] == "switch_type" {
			x.tier = w[i+1]
			continue
		}
		n, err := m.number(line, w[i], w[i+1], 0, 1<<20)
		switch {
		case err != nil:
			return err
		case w[i] == "switch_id":
			x.node = int(n)
		case w[i] == "link_id":
			x.link = int(n)
		default:
			return m.fail(line, "%q is unknown; write switch_type, switch_id and link_id", w[i])
		}
	}
	if x.tier != "AGG" { // add_failed_link takes no other
		return m.fail(line, "switch_type is %q; write AGG", x.tier)
	}
	m.failures = append(m.failures, x)
	return nil
}

// nameCutLinks names the failed links in the topology, which the file does not have.
func (m *matrix) nameCutLinks(into *Imported) error {
	if len(m.failures) == 0 {
		return nil
	}
	if into.Fabric == nil {
		m.countNotCarried(m.failures[0].line, "failed links are left out; name the topology too", "failure")
		return nil
	}
	f, err := fabric.New(*into.Fabric)
	if err != nil {
		return m.fail(0, "%v", err)
	}
	for _, x := range m.failures {
		if !f.ThreeTier() || x.node >= f.Aggs() || x.link >= f.Node(f.AggID(x.node)).Uplinks() {
			return m.fail(x.line, "switch %d has no uplink %d in the topology; name one of an aggregation switch of three tiers", x.node, x.link)
		}
		n := f.Node(f.AggID(x.node))
		into.Cuts = append(into.Cuts, f.LinkName(n.Link(n.FirstUplink()+fabric.PortNo(x.link))))
	}
	return nil
}
