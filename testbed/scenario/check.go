package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/strictyaml"
	"github.com/ethereal-fabric/ethereal/roce/transport"
	"github.com/ethereal-fabric/ethereal/testbed/balance"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// reportError records an error: its YAML path, the problem, and the remedy.
type reportError func(path, problem, remedy string)

// Validate returns [strictyaml.Errors] without positions, or nil. Scenarios from [Load] are valid; changed ones, or
// those made in Go, need not be.
func (s *Scenario) Validate() error {
	var es strictyaml.Errors
	s.check(func(path, problem, remedy string) {
		es = append(es, scenarioError(path, problem, remedy))
	})
	return es.Err()
}

// scenarioError returns an error about a scenario without file.
func scenarioError(key, problem, remedy string) *strictyaml.Error {
	return &strictyaml.Error{Pos: strictyaml.Pos{File: "scenario"}, Key: key, Problem: problem, Remedy: remedy}
}

func (s *Scenario) check(say reportError) {
	wrong := false
	bad := func(path, problem, remedy string) {
		wrong = true
		say(path, problem, remedy)
	}
	if s.Name == "" {
		bad("name", "is empty", "give the scenario a name")
	}
	s.Fabric.Complain("fabric", bad)
	f, _ := fabric.New(s.Fabric) // nil if invalid, which was reported
	s.checkPreset(bad)
	s.checkOpponents(bad)
	s.Servers.check(f, bad)
	s.Switch.check(bad)
	s.Host.check(bad)
	s.checkTimes(bad)
	if s.FastForward != "" && s.FastForward != Repeats {
		bad("fast_forward", fmt.Sprintf("%q is unknown", s.FastForward), "write repeats, or remove it")
	}
	if f != nil {
		s.checkLinks(f, bad)
	}
	if f != nil && !f.Clos() {
		s.checkDragonfly(bad)
	}
	if f != nil && !wrong {
		s.checkParts(f, bad)
	}

	if len(s.Collectives) == 0 {
		bad("collectives", "is empty", "list at least one, as in - {kind: all-to-all, bytes: 16MB}")
	}
	for i, c := range s.Collectives {
		path := fmt.Sprintf("collectives[%d]", i)
		if j := slices.Index(s.Collectives[:i], c); j >= 0 {
			bad(path, fmt.Sprintf("is the same as collectives[%d]", j), "remove one")
		}
		c.check(path, f, s.Host.Payload, bad)
	}
	if len(s.Schemes) == 0 {
		bad("schemes", "is empty", "list at least one of "+strings.Join(SchemeNames(), ", "))
	}
	for i, c := range s.Schemes {
		path := fmt.Sprintf("schemes[%d]", i)
		for j := range i {
			if s.Schemes[j].String() == c.String() {
				bad(path, fmt.Sprintf("%s is in the list already", c), "remove one")
			}
		}
		c.check(path, bad)
		if spec, err := c.Spec(); err == nil && spec.Source(c.Params).Adaptive && s.Host.Carrier != UDPSourcePort {
			bad("host.carrier", "switches of "+c.Name+" label packets in the UDP source port", "write udp-sport")
		}
	}
	if len(s.Failures) == 0 {
		bad("failures", "is empty", "list at least one case, as in - name: healthy")
	}
	for i, c := range s.Failures {
		path := fmt.Sprintf("failures[%d]", i)
		for j := range i {
			if s.Failures[j].Name == c.Name {
				bad(path+".name", fmt.Sprintf("%q names failures[%d] already", c.Name, j), "give each case its own name")
			}
		}
		s.checkFailure(c, path, f, bad)
	}
	for i, x := range s.Expect {
		x.check(f, fmt.Sprintf("expect[%d]", i), bad)
	}
	s.Worlds.check(bad)
	if len(s.Seeds) == 0 {
		bad("seeds", "is empty", "write for example 1, or 1..10")
	}
	for i, seed := range s.Seeds {
		if slices.Contains(s.Seeds[:i], seed) {
			bad("seeds", fmt.Sprintf("%d is in the list twice", seed), "list each seed once")
		}
	}
}

func (s *Switch) check(bad reportError) {
	if s.Buffer < minBuffer || s.Buffer > maxBuffer {
		bad("switch.buffer", fmt.Sprintf("%v is outside %v to %v", s.Buffer, minBuffer, maxBuffer), "write for example 64MB")
	}
	if !(s.Alpha >= minAlpha && s.Alpha <= maxAlpha) {
		bad("switch.alpha", fmt.Sprintf("%v is outside 1/256 to 1024", s.Alpha), "write for example 1")
	}
	s.PFC.check(bad)
	if s.Cell < 1 || s.Cell > 64<<10 {
		bad("switch.cell", fmt.Sprintf("%v is outside 1B to 64KiB", s.Cell), "write for example 256B")
	}
	if s.QuenchInterval < fabric.Microsecond || s.QuenchInterval%fabric.Microsecond != 0 || s.QuenchInterval > fabric.Second {
		bad("switch.quench_interval", fmt.Sprintf("%v is not 1us to 1s in whole microseconds", s.QuenchInterval), "write for example 10us")
	}
	e := s.ECN
	switch {
	case e.KMin > e.KMax:
		bad("switch.ecn.kmin", fmt.Sprintf("%v is above kmax (%v)", e.KMin, e.KMax), "make kmin kmax or less; equal is a step")
	case e.KMax > 0 && e.KMin < s.Cell:
		bad("switch.ecn.kmin", fmt.Sprintf("%v is less than one cell (%v)", e.KMin, s.Cell), "raise it, or set kmin and kmax to 0 for no marking")
	case e.KMax > s.Buffer:
		bad("switch.ecn.kmax", fmt.Sprintf("%v is more than the buffer (%v)", e.KMax, s.Buffer), "lower it")
	case s.Cell > 0 && e.KMax/s.Cell > maxCells:
		bad("switch.ecn.kmax", fmt.Sprintf("%v is more than %d cells of %v", e.KMax, maxCells, s.Cell), "lower it, or raise switch.cell")
	}
	if !(e.PMax > 0 && e.PMax <= 1) {
		bad("switch.ecn.pmax", fmt.Sprintf("%v is outside 0 (not included) to 1", e.PMax), "write for example 0.2, or 1 for a step")
	}
}

func (h *Host) check(bad reportError) {
	if h.Payload < minPayload || h.Payload > maxPayload {
		bad("host.payload", fmt.Sprintf("%v is outside %v to %v", h.Payload, minPayload, maxPayload), "write for example 9000B or 4096B")
	}
	if h.Headers < 0 || h.Headers > maxHeaders || h.Headers > 0 && h.Headers < minHeaders {
		bad("host.headers", fmt.Sprintf("%v is outside %v to %v", h.Headers, minHeaders, maxHeaders), "write for example 48B, or leave it out")
	}
	if h.AckEvery < 1 || h.AckEvery > 65536 {
		bad("host.ack_every", fmt.Sprintf("%d is outside 1 to 65536", h.AckEvery), "write 1 for an acknowledgement per packet")
	}
	if h.RTO < fabric.Microsecond || h.RTO > 1000*fabric.Second {
		bad("host.rto", fmt.Sprintf("%v is outside 1us to 1000s", h.RTO), "write for example 1ms")
	}
	h.checkControl(bad)
	if known := Receivers(); !slices.Contains(known, string(h.Receiver)) {
		bad("host.receiver", fmt.Sprintf("%q is unknown", h.Receiver), strictyaml.Choose(string(h.Receiver), known))
	}
	if h.ReorderWindow < 2 || h.ReorderWindow > 1<<20 {
		bad("host.reorder_window", fmt.Sprintf("%d is outside 2 to 1048576 packets", h.ReorderWindow), "write for example 256")
	}
	if known := Carriers(); !slices.Contains(known, string(h.Carrier)) {
		bad("host.carrier", fmt.Sprintf("%q is unknown", h.Carrier), strictyaml.Choose(string(h.Carrier), known))
	}
	if known := []string{string(OnArrival), string(OnAck)}; !slices.Contains(known, string(h.Completion)) {
		bad("host.completion", fmt.Sprintf("%q is unknown", h.Completion), strictyaml.Choose(string(h.Completion), known))
	}
	if h.Carrier == IPv6FlowLabel && !h.IPv6 {
		bad("host.carrier", "the flow label exists in IPv6 only", "set host.ipv6 to true, or the carrier to udp-sport")
	}
}

func (h *Host) checkControl(bad reportError) {
	if h.CongestionControl == SchemeControl {
		checkParams("host.congestion_params", "the schemes' control", nil, h.CongestionParams, bad)
		return
	}
	spec, err := h.CongestionControl.Spec()
	if err != nil || h.CongestionControl == "" {
		known := Controls()
		bad("host.congestion_control", fmt.Sprintf("%q is unknown", h.CongestionControl), strictyaml.Choose(string(h.CongestionControl), known))
		return
	}
	if checkParams("host.congestion_params", spec.Name, spec.ParamNames(), h.CongestionParams, bad) {
		if err := spec.Check(h.CongestionParams); err != nil {
			problem, remedy, _ := strings.Cut(strings.TrimPrefix(err.Error(), transport.ErrConfig.Error()+": "), "; ")
			bad("host.congestion_params", problem, remedy)
		}
	}
	if h.Carrier == SRv6USID && spec.Needs.DataField+spec.Needs.AckField > 0 {
		bad("host.congestion_control", spec.Name+"'s telemetry and an outer header are more than a packet's headers have room for",
			"use another carrier, or another control")
	}
}

// checkParams reports whether all given parameters are known, and complains about the first unknown one.
func checkParams(path, of string, known []string, given map[string]string, bad reportError) bool {
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(known, key) {
			remedy := of + " takes none; remove it"
			if len(known) > 0 {
				remedy = strictyaml.Choose(key, known)
			}
			bad(path+"."+key, fmt.Sprintf("unknown parameter %q of %s", key, of), remedy)
			return false
		}
	}
	return true
}

// checkTimes checks the plain durations.
func (s *Scenario) checkTimes(bad reportError) {
	for _, t := range []struct {
		path     string
		value    fabric.Time
		min, max fabric.Time
		example  string
	}{
		{"agent.failed_path_memory", s.Agent.FailedPathMemory, 1, 1000 * fabric.Second, "100ms"},
		{"agent.batch_window", s.Agent.BatchWindow, 0, fabric.Second, "100ns"},
		{"agent.start_jitter", s.Agent.StartJitter, 0, fabric.Second, "50ns"},
		{"control.gnmi_delay", s.Control.GNMIDelay, 0, 1000 * fabric.Second, "50us"},
		{"control.compute_delay", s.Control.ComputeDelay, 0, 1000 * fabric.Second, "10us"},
		{"control.write_delay", s.Control.WriteDelay, 0, 1000 * fabric.Second, "50us"},
		{"control.push_delay", s.Control.PushDelay, 0, 1000 * fabric.Second, "20us"},
		{"deadline", s.Deadline, fabric.Microsecond, 10_000 * fabric.Second, "20ms"},
	} {
		if t.value < t.min || t.value > t.max {
			bad(t.path, fmt.Sprintf("%v is outside %v to %v", t.value, t.min, t.max), "write for example "+t.example)
		}
	}
}

func (c Collective) check(path string, f *fabric.Fabric, payload fabric.Bytes, bad reportError) {
	if c.Kind == Workload {
		c.checkWorkload(path, f, bad)
		return
	}
	if c.File != "" {
		bad(path+".file", "belongs to kind workload", "remove it")
	}
	algorithms := collective.Algorithms(c.Kind)
	if algorithms == nil {
		known := collectiveKinds()
		remedy := strictyaml.Choose(c.Kind, known)
		if slices.Contains(collective.Algorithms(collective.AllReduce), c.Kind) {
			remedy = fmt.Sprintf("that is an algorithm: write kind: all-reduce and algorithm: %s", c.Kind)
		}
		bad(path+".kind", fmt.Sprintf("%q is unknown", c.Kind), remedy)
		return
	}
	if remedy, renamed := collective.Renamed(c.Algorithm); renamed {
		bad(path+".algorithm", fmt.Sprintf("%q has two meanings", c.Algorithm), remedy)
		return
	}
	if c.Algorithm != "" && !slices.Contains(algorithms, c.Algorithm) {
		bad(path+".algorithm", fmt.Sprintf("%s has no algorithm %q", c.Kind, c.Algorithm), strictyaml.Choose(c.Algorithm, algorithms))
		return
	}
	if c.Bytes > 1<<40 {
		bad(path+".bytes", fmt.Sprintf("%v is more than 1TiB", c.Bytes), "write for example 16MB")
		return
	}
	for _, k := range []struct {
		key, kind string
		set       bool
	}{
		{"shift", collective.Permutation, c.Shift != 0}, {"target", collective.Incast, c.Target != 0},
		{"senders", collective.Incast, c.Senders != 0}, {"skew", collective.AllToAll, c.Skew != 0},
		{"spread", collective.AllToAll, c.Spread != 0},
	} {
		if k.set && c.Kind != k.kind {
			bad(path+"."+k.key, "belongs to kind "+k.kind, "remove it")
			return
		}
	}
	c.checkLate(path, f, bad)
	if f == nil {
		return // the number of ranks is unknown
	}
	if err := c.Spec(f.Hosts(), 0).Validate(); err != nil {
		text := strings.TrimPrefix(err.Error(), collective.ErrSpec.Error()+": ")
		problem, remedy, _ := strings.Cut(text, "; ")
		// "bytes is 8": name the field, if the error is about one.
		fields := []string{"bytes", "shift", "target", "senders", "skew", "spread", "group", "channels"}
		if key, rest, _ := strings.Cut(problem, " "); slices.Contains(fields, key) {
			path, problem = path+"."+key, rest
		}
		bad(path, problem, remedy)
		return
	}
	c.checkMessage(path, f.Hosts(), payload, bad)
}

func (s Scheme) check(path string, bad reportError) {
	spec, err := s.Spec()
	if err != nil {
		bad(path, fmt.Sprintf("unknown scheme %q", s.Name), strictyaml.Choose(s.Name, SchemeNames()))
		return
	}
	if !checkParams(path+".params", s.Name, spec.ParamNames(), s.Params, bad) {
		return
	}
	if err := spec.Check(s.Params); err != nil {
		problem, remedy, _ := strings.Cut(strings.TrimPrefix(err.Error(), balance.ErrScheme.Error()+": "), "; ")
		bad(path+".params", problem, remedy)
	}
}
