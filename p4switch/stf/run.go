package stf

import (
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/packettrace"
	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// Report is the result of a run of a [Script].
type Report struct {
	Sent     int      // packets sent
	Expected int      // packets expected, not counting ports that may have any number
	Received int      // packets that came out, of all ports
	Failures []string // differences, in the order of the script, then by port
	Log      []string // output of reads and log_msg
}

// Passed reports whether everything came out as expected.
func (r *Report) Passed() bool { return len(r.Failures) == 0 }

// run is the state of one run.
type run struct {
	script   *Script
	prog     *program.Program
	sw       *interp.Switch
	process  Process
	report   Report
	now      int64
	received map[uint32][]string // hex
	expected map[uint32][]expectation
	mentions map[uint32]bool
	nodes    []multicastNode
	groups   map[uint32][]int
	mirrors  map[uint32]mirrorSession
	labels   map[string]entryLabel // of entries: add ... = NAME
	sent     []injectedPacket
	from     map[uint32][]int // by port: the packet of sent that each of got comes from
}

// injectedPacket is a packet of the script and the ways of it and its copies; none if the interpreter did not process
// it.
type injectedPacket struct {
	line   int
	traces []*interp.PacketTrace
}

// entryLabel is an entry that has a name.
type entryLabel struct {
	table program.TableID
	entry interp.Handle
}

type expectation struct {
	line int
	data string // "" : any
	any  bool   // every packet of the port is fine
}

// multicastNode is a multicast node: a replication id and its ports.
type multicastNode struct {
	rid   uint16
	ports []uint32
}

type mirrorSession struct {
	port    uint32
	hasPort bool
	group   uint32 // 0: none
}

// Run runs the script on a new switch with program p. The error says that the script cannot be run, such as when it
// names a table that p lacks.
func (s *Script) Run(p *program.Program) (*Report, error) {
	return s.RunThrough(p, func(sw *interp.Switch) (Process, error) {
		return func(in interp.Input, emit func(interp.Output)) error {
			sw.Process(in, emit)
			return nil
		}, nil
	})
}

// Process passes one packet through a data path, and calls emit for each packet that leaves.
type Process func(in interp.Input, emit func(interp.Output)) error

// RunThrough is [Script.Run] with another data path: through returns it for a switch that has the script's entries.
func (s *Script) RunThrough(p *program.Program, through func(*interp.Switch) (Process, error)) (*Report, error) {
	r := &run{
		script: s, prog: p, received: map[uint32][]string{}, expected: map[uint32][]expectation{},
		mentions: map[uint32]bool{}, groups: map[uint32][]int{}, mirrors: map[uint32]mirrorSession{}, labels: map[string]entryLabel{},
		from: map[uint32][]int{},
	}
	tracer := &interp.Tracer{Done: func(t *interp.PacketTrace) {
		last := &r.sent[len(r.sent)-1]
		last.traces = append(last.traces, t)
	}}
	r.sw = interp.NewSwitch(p, interp.Config{
		Log: func(l interp.LogRecord) { r.report.Log = append(r.report.Log, l.Text) }, Tracer: tracer,
	})
	var err error
	if r.process, err = through(r.sw); err != nil {
		return nil, err
	}
	for i := range s.cmds {
		c := &s.cmds[i]
		if err := r.command(c); err != nil {
			return nil, fmt.Errorf("stf: %s:%d: %s: %w", s.name, c.line, c.verb, err)
		}
	}
	r.compare()
	return &r.report, nil
}

func (r *run) command(c *command) error {
	w := c.words
	switch c.verb {
	case "packet":
		port, err := number(w[0], 32)
		if err != nil {
			return err
		}
		data, err := hex.DecodeString(w[1])
		if err != nil {
			return err
		}
		r.mentions[port] = true
		r.report.Sent++
		r.now += 1_000_000 // one packet per millisecond
		r.sent = append(r.sent, injectedPacket{line: c.line})
		return r.process(interp.Input{Port: port, Data: data, Now: r.now}, func(o interp.Output) {
			r.report.Received++
			r.received[o.Port] = append(r.received[o.Port], hex.EncodeToString(o.Data))
			r.from[o.Port] = append(r.from[o.Port], len(r.sent)-1)
		})
	case "expect":
		port, err := number(w[0], 32)
		if err != nil {
			return err
		}
		r.mentions[port] = true
		r.expected[port] = append(r.expected[port], expectation{line: c.line, data: w[1], any: w[1] == ""})
	case "no_packet", "wait":
	case "add":
		return r.add(w)
	case "setdefault":
		return r.setDefault(w)
	case "remove":
		return r.removeAll(w)
	case "check_counter":
		return r.checkCounter(c.line, strings.Join(w, " "))
	case "mirroring_add", "mirroring_add_mc", "mirroring_delete", "mirroring_get",
		"mc_mgrp_create", "mc_node_create", "mc_node_update", "mc_node_associate":
		return r.replication(c.verb, w)
	default:
		return r.array(c.verb, w)
	}
	return nil
}

// compare checks what came out of each port against what was expected.
func (r *run) compare() {
	for _, port := range slices.Sorted(maps.Keys(r.mentions)) {
		want, got := r.expected[port], r.received[port]
		if slices.ContainsFunc(want, func(e expectation) bool { return e.any }) {
			if len(got) == 0 {
				r.failf("port %d: expected some packet, got none%s%s", port, r.quoted(port, want), r.traceTexts(nil))
			}
			continue
		}
		r.report.Expected += len(want)
		if len(want) != len(got) {
			var came []int
			if len(got) > len(want) {
				came = r.from[port]
			}
			r.failf("port %d: expected %d packets, got %d %s%s%s", port, len(want), len(got), short(got), r.quoted(port, want), r.traceTexts(came))
			continue
		}
		for i, e := range want {
			if why := differ(e.data, got[i]); why != "" {
				r.failf("port %d: packet %d (line %d): %s%s\n  got  %s%s", port, i, e.line, why, r.quoted(port, want[i:i+1]), got[i],
					r.traceTexts(r.from[port][i:i+1]))
			}
		}
	}
}

// tracesShown is the maximum number of packet traces that a failure prints.
const tracesShown = 4

// traceTexts returns the traces of sent packets, or of those that lost all their copies if a packet is missing (nil).
func (r *run) traceTexts(of []int) string {
	if of == nil {
		for i, s := range r.sent {
			if !slices.ContainsFunc(s.traces, func(t *interp.PacketTrace) bool { return t.Sent != nil }) {
				of = append(of, i)
			}
		}
	}
	if of == nil { // none is missing: one left by another port
		for i := range r.sent {
			of = append(of, i)
		}
	}
	var b strings.Builder
	for _, i := range of[:min(len(of), tracesShown)] {
		for _, t := range r.sent[i].traces {
			fmt.Fprintf(&b, "\n  way of line %d's packet: %s", r.sent[i].line, packettrace.Text(t))
		}
	}
	return b.String()
}

// quoted returns the lines of a script that expect packets.
func (r *run) quoted(port uint32, want []expectation) string {
	var b strings.Builder
	for _, e := range want {
		fmt.Fprintf(&b, "\n  %s:%d: %s", r.script.name, e.line, strings.TrimSpace(fmt.Sprintf("expect %d %s", port, e.data)))
	}
	return b.String()
}

func (r *run) failf(format string, args ...any) {
	r.report.Failures = append(r.report.Failures, fmt.Sprintf(format, args...))
}

func short(l []string) string {
	s := strings.Join(l, " ")
	if len(s) > 200 {
		s = s[:200] + "..."
	}
	return s
}

// differ says how got differs from the pattern want, "" when it does not.
func differ(want, got string) string {
	exact := strings.HasSuffix(want, "$")
	want = strings.TrimSuffix(want, "$")
	if exact && len(got) > len(want) {
		return fmt.Sprintf("%d digits, expected exactly %d", len(got), len(want))
	}
	if len(got) < len(want) {
		return fmt.Sprintf("%d digits, expected %d", len(got), len(want))
	}
	for i := range len(want) {
		if want[i] != '*' && want[i] != got[i] {
			return fmt.Sprintf("digit %d is %c, expected %c", i, got[i], want[i])
		}
	}
	return ""
}

// number reads a decimal, 0x, 0b or 0o number of at most bits bits.
func number(s string, bits int) (uint32, error) {
	n, err := strconv.ParseUint(s, 0, bits)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number of at most %d bits", s, bits)
	}
	return uint32(n), nil
}

func numbers(l []string) ([]uint32, error) {
	out := make([]uint32, len(l))
	for i, s := range l {
		n, err := number(s, 32)
		if err != nil {
			return nil, err
		}
		out[i] = n
	}
	return out, nil
}

// replication executes the commands of multicast groups and mirror sessions.
func (r *run) replication(verb string, w []string) error {
	n, err := numbers(w)
	if err != nil {
		return err
	}
	switch verb {
	case "mc_mgrp_create":
		r.groups[n[0]] = nil
	case "mc_node_create":
		ports := slices.Clone(n[1:])
		slices.Sort(ports)
		r.nodes = append(r.nodes, multicastNode{uint16(n[0]), ports})
	case "mc_node_update", "mc_node_associate":
		at := n[0]
		if verb == "mc_node_associate" {
			at = n[1]
		}
		if int(at) >= len(r.nodes) {
			return fmt.Errorf("there is no node %d", at)
		}
		if verb == "mc_node_associate" {
			r.groups[n[0]] = append(r.groups[n[0]], int(at))
		} else {
			r.nodes[at].ports = slices.Clone(n[1:])
		}
	case "mirroring_add":
		r.mirrors[n[0]] = mirrorSession{port: n[1], hasPort: true}
	case "mirroring_add_mc":
		r.mirrors[n[0]] = mirrorSession{group: n[1]}
	case "mirroring_delete":
		delete(r.mirrors, n[0])
		return r.sw.DeleteCloneSession(n[0])
	case "mirroring_get":
		r.report.Log = append(r.report.Log, fmt.Sprintf("mirror session %d: %+v", n[0], r.mirrors[n[0]]))
		return nil
	}
	for g := range r.groups {
		if err := r.sw.SetMulticastGroup(g, r.replicas(g)); err != nil {
			return err
		}
	}
	for id, m := range r.mirrors {
		var reps []interp.Replica
		if m.group != 0 {
			reps = r.replicas(m.group)
		}
		if m.hasPort {
			reps = append(reps, interp.Replica{Port: m.port})
		}
		if err := r.sw.SetCloneSession(id, interp.CloneSession{Replicas: reps}); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) replicas(g uint32) []interp.Replica {
	var out []interp.Replica
	for _, i := range r.groups[g] {
		for _, p := range r.nodes[i].ports {
			out = append(out, interp.Replica{Port: p, Instance: r.nodes[i].rid})
		}
	}
	return out
}

// array executes the commands on counters, registers and meters.
func (r *run) array(verb string, w []string) error {
	idx := 0
	if len(w) > 1 && verb != "meter_array_set_rates" {
		n, err := number(w[1], 31)
		if err != nil {
			return err
		}
		idx = int(n)
	}
	switch verb {
	case "register_read", "register_write", "register_reset":
		return r.register(verb, w, idx)
	case "counter_read", "counter_write":
		id, err := find("counter", w[0], r.prog.CounterByName, namesOf(r.prog.Counters, func(c program.CounterInfo) string { return c.Name }))
		if err != nil {
			return err
		}
		if verb == "counter_write" {
			n, err := numbers(w[2:4])
			if err != nil {
				return err
			}
			return r.sw.SetCounter(id, idx, uint64(n[0]), uint64(n[1]))
		}
		p, b, err := r.sw.Counter(id, idx)
		r.report.Log = append(r.report.Log, fmt.Sprintf("%s[%d] = %d packets, %d bytes", w[0], idx, p, b))
		return err
	}
	return r.meter(verb, w, idx)
}

func (r *run) register(verb string, w []string, idx int) error {
	regs := r.prog.Registers
	id, err := find("register", w[0], r.prog.RegisterByName, namesOf(regs, func(c program.RegisterInfo) string { return c.Name }))
	if err != nil {
		return err
	}
	switch verb {
	case "register_read":
		v, err := r.sw.Register(id, idx)
		r.report.Log = append(r.report.Log, fmt.Sprintf("%s[%d] = %x", w[0], idx, v))
		return err
	case "register_write":
		v, _, err := value(w[2])
		if err != nil {
			return err
		}
		return r.sw.SetRegister(id, idx, v)
	}
	for i := range regs[id].Size {
		if err := r.sw.SetRegister(id, i, nil); err != nil {
			return err
		}
	}
	return nil
}

// meter sets rates, given as rate per microsecond and burst, smaller first.
func (r *run) meter(verb string, w []string, idx int) error {
	meters := r.prog.Meters
	id, err := find("meter", w[0], r.prog.MeterByName, namesOf(meters, func(c program.MeterInfo) string { return c.Name }))
	if err != nil {
		return err
	}
	if verb == "meter_get_rates" {
		c, set, err := r.sw.Meter(id, idx)
		r.report.Log = append(r.report.Log, fmt.Sprintf("%s[%d] = %+v, set %v", w[0], idx, c, set))
		return err
	}
	rates := w[2:]
	if verb == "meter_array_set_rates" {
		rates = w[1:]
	}
	if len(rates) != 2 {
		return fmt.Errorf("%d rates; a meter has 2", len(rates))
	}
	var rate, burst [2]int64
	for i, s := range rates {
		a, b, _ := strings.Cut(s, ":")
		f, err1 := strconv.ParseFloat(a, 64)
		n, err2 := strconv.ParseInt(b, 0, 63)
		if err1 != nil || err2 != nil {
			return fmt.Errorf("%q is not RATE:BURST", s)
		}
		rate[i], burst[i] = int64(f*1e6+0.5), n
	}
	c := interp.MeterConfig{CIR: rate[0], CBurst: burst[0], PIR: rate[1], PBurst: burst[1]}
	if verb == "meter_set_rates" {
		return r.sw.SetMeter(id, idx, c)
	}
	for i := range meters[id].Size {
		if err := r.sw.SetMeter(id, i, c); err != nil {
			return err
		}
	}
	return nil
}

func namesOf[T any](l []T, name func(T) string) []string {
	out := make([]string, len(l))
	for i, x := range l {
		out[i] = name(x)
	}
	return out
}

// find resolves a full name, or the only one that ends with it.
func find[ID ~int](what, name string, exact func(string) (ID, bool), names []string) (ID, error) {
	if id, ok := exact(name); ok {
		return id, nil
	}
	i, err := bySuffix(what, name, names)
	if err != nil {
		return 0, err
	}
	id, _ := exact(names[i])
	return id, nil
}

func bySuffix(what, name string, names []string) (int, error) {
	at := -1
	for i, n := range names {
		if !strings.HasSuffix(n, name) {
			continue
		}
		if at >= 0 {
			return 0, fmt.Errorf("%s %q may be %q or %q", what, name, names[at], n)
		}
		at = i
	}
	if at < 0 {
		known := slices.Clone(names)
		sort.Strings(known)
		return 0, fmt.Errorf("there is no %s %q, only %s", what, name, strings.Join(known, ", "))
	}
	return at, nil
}
