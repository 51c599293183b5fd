package importer

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// Policies of SimAI's workloads.
const (
	simaiMicro     = "MICRO"
	simaiData      = "DATA"
	simaiInference = "DISTRIBUTED_INFERENCE"
)

func simaiPolicies() []string {
	return []string{simaiData, "HYBRID_TRANSFORMER", "HYBRID_TRANSFORMER_FWD_IN_BCKWD", simaiInference, simaiMicro}
}

// isSimAI recognises a policy of parallelism above the number of layers.
func isSimAI(data []byte) bool {
	first, rest, _ := bytes.Cut(data, []byte("\n"))
	second, _, _ := bytes.Cut(rest, []byte("\n"))
	w := strings.Fields(string(first))
	if len(w) == 0 {
		return false
	}
	_, err := strconv.Atoi(strings.TrimSpace(string(second)))
	return err == nil && (slices.Contains(simaiPolicies(), w[0]) || strings.HasPrefix(w[0], "HYBRID_") || w[0] == "MODEL")
}

// groups are the sizes of SimAI's groups of ranks.
type groups struct{ all, tp, pp, ep int }

// group returns the size of a group and the distance of its ranks, as MockNcclGroup makes them. A kind is "" for that
// of the phase, EP or DP_EP.
func (g groups) group(kind string, tensor bool) (size, stride int) {
	dp := g.all / (g.tp * g.pp)
	switch {
	case kind == "EP":
		return g.ep, g.tp
	case kind == "DP_EP":
		return dp / g.ep, g.tp * g.ep
	case tensor:
		return g.tp, 1
	}
	return dp, g.all / dp
}

// layer is a line of a workload: computations and collectives forward, backward for inputs and for weights.
type layer struct {
	line   int
	phases [3]phase // forward, gradients of inputs, gradients of weights
}

type phase struct {
	compute fabric.Time
	what    string
	bytes   int64
}

// readSimAI reads a workload as SimAI's Workload::initialize_workload does: a policy with sizes of groups, the number
// of layers, and of each its name, a number, three times computation (ns), collective and bytes, and an update's time.
// The bytes of a collective are those of the whole vector, as its maintainers say and MockNcclGroup has it.
func readSimAI(f *inputFile, o Options, into *Imported) error {
	first, _, _ := strings.Cut(string(f.data), "\n")
	header := strings.Fields(first)
	if !slices.Contains(simaiPolicies(), header[0]) {
		return f.fail(1, "policy %s; workloads of %s are read", header[0], strings.Join(simaiPolicies(), ", "))
	}
	g, err := f.simaiGroups(header, o)
	if err != nil {
		return err
	}
	layers, err := f.simaiLayers()
	if err != nil {
		return err
	}
	var steps []Step
	add := func(l layer, p int, background bool) {
		if err != nil {
			return
		}
		ph := l.phases[p]
		if ph.compute > 0 {
			steps = append(steps, Step{Compute: ph.compute})
		}
		steps, err = f.simaiCollective(l.line, steps, ph, g, p < 2, background)
	}
	switch header[0] {
	case simaiMicro:
		for _, l := range layers {
			l.phases[2].compute = 0 // iterate_micro_benchmark does not compute
			add(l, 2, false)
		}
		f.notes.add("all lines of MICRO are carried out, one after the other; SimAI carries out the first", "")
	default:
		for _, l := range layers {
			if header[0] == simaiData {
				l.phases[0].what = ""
			}
			add(l, 0, false)
		}
		for i := range layers {
			l := layers[len(layers)-1-i]
			switch header[0] {
			case simaiInference:
			case simaiData:
				l.phases[1].what = ""
				add(l, 2, true)
				add(l, 1, false)
			default:
				add(l, 1, false)
				add(l, 2, true)
			}
		}
	}
	if err != nil {
		return err
	}
	if !hasMessages(steps) {
		return f.fail(0, "its groups of %d ranks exchange nothing; write larger groups, or --world-size", g.all)
	}
	into.Jobs, into.Ranks = []Job{{Ranks: rankRange(g.all), Steps: steps}}, g.all
	return nil
}

// rankRange names the first n ranks.
func rankRange(n int) string { return fmt.Sprintf("0..%d", n-1) }

// simaiGroups reads the sizes of the header's groups.
func (f *inputFile) simaiGroups(header []string, o Options) (groups, error) {
	g := groups{tp: 1, pp: 1, ep: 1}
	for i := 1; i+1 < len(header); i++ {
		into := map[string]*int{"model_parallel_NPU_group:": &g.tp, "ep:": &g.ep, "pp:": &g.pp, "all_gpus:": &g.all}[header[i]]
		var other int
		switch header[i] {
		case "pp_comm", "pp_comm:", "checkpoints:":
			into = &other
		}
		if into == nil {
			continue
		}
		n, err := f.number(1, strings.TrimSuffix(header[i], ":"), header[i+1], 0, math.MaxInt32)
		if err != nil {
			return g, err
		}
		switch *into = int(n); {
		case into != &other:
			*into = max(1, *into)
		case other > 0 && strings.HasPrefix(header[i], "pp_comm"):
			f.countNotCarried(1, "messages between stages of the pipeline are left out, as in SimAI's ns-3", strings.Join(header[i:i+2], " "))
		case other > 0:
			f.countNotCarried(1, "layers that are computed again are left out", strings.Join(header[i:i+2], " "))
		}
	}
	if o.Ranks > 0 {
		if g.all > 0 && g.all != o.Ranks {
			f.countNotCarried(1, fmt.Sprintf("%d ranks in place of all_gpus", o.Ranks), fmt.Sprint("all_gpus: ", g.all))
		}
		g.all = o.Ranks
	}
	switch {
	case g.all == 0:
		return g, f.fail(1, "the file does not say how many GPUs there are; write --world-size N")
	case g.all > collective.MaxRanks:
		return g, f.fail(1, "%d GPUs; at most %d", g.all, collective.MaxRanks)
	case g.all%(g.tp*g.pp) != 0 || g.all/(g.tp*g.pp)%g.ep != 0 || g.all < 2:
		return g, f.fail(1, "%d GPUs are no multiple of tensor %d times pipeline %d times experts %d; write --world-size N", g.all, g.tp, g.pp, g.ep)
	}
	return g, nil
}

// simaiLayers reads the lines of layers.
func (f *inputFile) simaiLayers() ([]layer, error) {
	r := f.reader()
	for len(r.words) > 0 && r.words[0].line == 1 {
		r.next()
	}
	count, err := r.int("the number of layers", 1, 1<<22)
	if err != nil {
		return nil, err
	}
	var out []layer
	for range count {
		name := r.next()
		if name == "" {
			return nil, f.fail(r.line, "%d layers of %d; write the number of those that are there", len(out), count)
		}
		r.next() // what it depends on, which SimAI does not use
		l := layer{line: r.line}
		for p := range l.phases {
			ns, err := r.number(r.line, "a computation", r.next(), 0, int64(1000*fabric.Second/fabric.Nanosecond))
			if err != nil {
				return nil, err
			}
			ph := phase{compute: fabric.Time(ns) * fabric.Nanosecond, what: r.next()}
			if ph.bytes, err = r.number(r.line, "the size of "+ph.what, r.next(), 0, 1<<50); err != nil {
				return nil, err
			}
			l.phases[p] = ph
		}
		if _, err := f.decimal(r.line, "the time of an update", r.next(), math.MaxFloat64); err != nil {
			return nil, err
		}
		out = append(out, l)
	}
	f.notes.add("times of updates after collectives are left out", "")
	if len(r.words) > 0 {
		f.countNotCarried(r.words[0].line, "words behind the last layer are left out, as SimAI does", r.words[0].text)
	}
	return out, nil
}

// simaiCollective adds the collective of a phase.
func (f *inputFile) simaiCollective(line int, steps []Step, p phase, g groups, tensor, background bool) ([]Step, error) {
	name, group, _ := strings.Cut(p.what, "_")
	kind, known := map[string]string{
		"ALLREDUCE": collective.AllReduce, "ALLGATHER": collective.AllGather, "REDUCESCATTER": collective.ReduceScatter,
		"ALLTOALL": collective.AllToAll, "ALLREDUCEALLTOALL": collective.AllReduce, // the reader's first match
		"NONE": "", "": "",
	}[name]
	if !known || group != "" && group != "EP" && group != "DP_EP" {
		f.countNotCarried(line, "collectives that SimAI does not know are left out, as it does", p.what)
		return steps, nil
	}
	if p.bytes == 0 || kind == "" {
		return steps, nil
	}
	s := Step{What: kind, Bytes: fabric.Bytes(p.bytes), Background: background}
	s.Group, s.Stride = g.group(group, tensor)
	return f.step(line, steps, s)
}

// isSimAITopology recognises "NODES GPUS NVSWITCHES SWITCHES LINKS TYPE" above the switches' numbers.
func isSimAITopology(data []byte) bool {
	first, second, more := firstNumbers(data)
	return len(first) == 5 && len(more) == 1 && int64(len(second)) == first[2]+first[3]
}

// readSimAITopology reads a topology as gen_Topo_Template.py writes it: HPCC's with the number of GPUs of a server and
// of NVLink switches in the first line, and these first among the switches. NVLink switches become the servers'
// internal links.
func readSimAITopology(f *inputFile, _ Options, into *Imported) error {
	r := f.reader()
	var n [5]int
	for i, what := range []string{"the number of nodes", "GPUs of a server", "the number of NVLink switches", "the number of switches", "the number of links"} {
		var err error
		if n[i], err = r.int(what, 0, math.MaxInt32); err != nil {
			return err
		}
	}
	nodes, gpus := n[0], n[1]
	if nodes > collective.MaxRanks || gpus < 1 || gpus > 64 || n[2]+n[3] >= nodes {
		return f.fail(1, "%d nodes, %d GPUs a server, %d and %d switches; write more nodes than switches, and 1 to 64 GPUs", nodes, gpus, n[2], n[3])
	}
	r.next() // the type of GPU
	g, inside := newGraph(f), map[int]bool{}
	for i := range n[2] + n[3] {
		s, err := r.int("a switch", 0, int64(nodes)-1)
		if err != nil {
			return err
		}
		if i < n[2] {
			inside[s] = true
		} else {
			g.switches[s] = true
		}
	}
	links, used := n[4], 0
	var internal fabric.LinkSpec
	for range links {
		a, b, c, err := g.link(r, nodes)
		if err != nil {
			return err
		}
		if inside[a] || inside[b] {
			if used++; used > 1 && internal != c.link {
				f.countNotCarried(c.line, "NVLinks of other rates than the first are taken for alike", fmt.Sprint(c.link.Rate))
				continue
			}
			internal = c.link
			continue
		}
		if err := g.add(a, b, c); err != nil {
			return err
		}
	}
	spec, order, err := g.clos()
	if err != nil {
		return err
	}
	into.Fabric = &spec
	return f.servers(order, gpus, internal, into)
}

// servers finds the wiring with which ranks are the GPUs of these numbers.
func (f *inputFile) servers(order []int, gpus int, internal fabric.LinkSpec, into *Imported) error {
	if gpus == 1 {
		f.setRanks(order)
		return nil
	}
	s := &Servers{GPUs: gpus, Internal: internal}
	s.Internal.Delay *= 2 // over a switch
	per := into.Fabric.HostsPerToR
	rail := func(rank int) int { // the host of a rank, as scenario.Servers.Host
		server, gpu := rank/gpus, rank%gpus
		return (server/per*gpus+gpu)*per + server%per
	}
	wired := func(host func(int) int) bool {
		for rank := range order {
			if h := host(rank); h >= len(order) || order[h] != rank {
				return false
			}
		}
		return true
	}
	switch {
	case wired(rail):
		s.Wiring, s.CrossRail = "rail", "internal"
	case wired(func(rank int) int { return rank }) && per%gpus == 0:
		s.Wiring = "rack"
	default:
		return f.fail(0, "GPUs of a server are neither all below one switch, nor GPU i of each server below switch i; wire them so")
	}
	into.Servers = s
	return nil
}
