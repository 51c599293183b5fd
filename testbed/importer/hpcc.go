package importer

import (
	"fmt"
	"math"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/workload"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// isHPCCTopology recognises "NODES SWITCHES LINKS" above the switches' numbers.
func isHPCCTopology(data []byte) bool {
	first, second, more := firstNumbers(data)
	return len(first) == 3 && len(more) == 0 && int64(len(second)) == first[1] && first[0] > first[1] && first[1] > 0
}

// isHPCCFlows recognises the number of flows above lines of six numbers.
func isHPCCFlows(data []byte) bool {
	first, second, more := firstNumbers(data)
	return len(first) == 1 && len(more) == 0 && len(second) >= 5
}

// reader takes one word after the other, as C++'s >> does.
type reader struct {
	*inputFile
	words []word
	line  int // of the last word
}

func (f *inputFile) reader() *reader { return &reader{inputFile: f, words: f.words()} }

// next returns the next word, or "" at the end, which no number is.
func (r *reader) next() string {
	if len(r.words) == 0 {
		return ""
	}
	w := r.words[0]
	r.words, r.line = r.words[1:], w.line
	return w.text
}

func (r *reader) int(what string, least, most int64) (int, error) {
	n, err := r.number(r.line, what, r.next(), least, most)
	return int(n), err
}

// readHPCCTopology reads the topology of HPCC's third.cc: nodes, switches and links by number, the switches' numbers,
// and "NODE NODE RATE DELAY ERROR_RATE" for each link.
func readHPCCTopology(f *inputFile, _ Options, into *Imported) error {
	r := f.reader()
	nodes, err := r.int("the number of nodes", 2, collective.MaxRanks)
	if err != nil {
		return err
	}
	switches, err := r.int("the number of switches", 1, int64(nodes)-1)
	if err != nil {
		return err
	}
	links, err := r.int("the number of links", 1, math.MaxInt32)
	if err != nil {
		return err
	}
	g := newGraph(f)
	for range switches {
		n, err := r.int("a switch", 0, int64(nodes)-1)
		if err != nil {
			return err
		}
		g.switches[n] = true
	}
	return g.read(r, nodes, links, into)
}

// read reads the links, and sets the fabric and the ranks of hosts.
func (g *graph) read(r *reader, nodes, links int, into *Imported) error {
	for range links {
		a, b, c, err := g.link(r, nodes)
		if err != nil {
			return err
		}
		if err := g.add(a, b, c); err != nil {
			return err
		}
	}
	if len(r.words) > 0 {
		g.countNotCarried(r.words[0].line, "words behind the last link are left out, as ns-3 does", r.words[0].text)
	}
	for n := range nodes {
		if g.next[n] == nil {
			g.countNotCarried(0, "nodes without links are left out", fmt.Sprint("node ", n))
		}
	}
	spec, order, err := g.clos()
	if err != nil {
		return err
	}
	into.Fabric = &spec
	g.setRanks(order)
	return nil
}

// setRanks remembers the ranks of hosts, in the order of ranks.
func (f *inputFile) setRanks(hosts []int) {
	f.rank = make(map[int]int, len(hosts))
	for rank, h := range hosts {
		f.rank[h] = rank
		if rank != h {
			f.countNotCarried(0, "hosts have other numbers here, as hosts of a ToR are numbered together", fmt.Sprintf("%d is h%d", h, rank))
		}
	}
}

func (g *graph) link(r *reader, nodes int) (a, b int, c cable, err error) {
	if a, err = r.int("a node", 0, int64(nodes)-1); err != nil {
		return
	}
	if b, err = r.int("a node", 0, int64(nodes)-1); err != nil {
		return
	}
	rate, err := g.quantity(r.line, "the rate", r.next(), rateUnits())
	if err != nil {
		return
	}
	delay, err := g.quantity(r.line, "the delay", r.next(), delayUnits())
	if err != nil {
		return
	}
	lost, err := g.decimal(r.line, "the error rate", r.next(), 1)
	switch {
	case err != nil:
	case a == b:
		err = g.fail(r.line, "node %d is linked to itself; name another", a)
	case rate == 0:
		err = g.fail(r.line, "the link has no rate; write for example 100Gbps")
	case lost > 0:
		g.countNotCarried(r.line, "error rates of links are left out; write a failure with action: gray", fmt.Sprintf("%d-%d loses %g", a, b, lost))
	}
	return a, b, cable{fabric.LinkSpec{Rate: fabric.Rate(rate), Delay: fabric.Time(delay)}, r.line}, err
}

// readHPCCFlows reads the flows of HPCC's third.cc: their number, and "SRC DST PG DPORT BYTES START" for each, with
// start in seconds. Times here count from the first flow's start.
func readHPCCFlows(f *inputFile, _ Options, into *Imported) error {
	r := f.reader()
	count, err := r.int("the number of flows", 1, math.MaxInt32)
	if err != nil {
		return err
	}
	hosts := int64(collective.MaxRanks)
	var starts []float64
	for range count {
		var fl workload.Flow
		var ends [2]int
		for i := range ends {
			n, err := r.int("a host", 0, hosts-1)
			if err != nil {
				return err
			}
			if ends[i] = n; f.rank != nil {
				known := false
				if ends[i], known = f.rank[n]; !known {
					return f.fail(r.line, "node %d is no host of the topology; name one", n)
				}
			}
		}
		fl.From, fl.To = ends[0], ends[1]
		line := r.line
		r.next() // priority group
		r.next() // destination port
		bytes, err := r.int("the size", 0, math.MaxUint32)
		if err != nil {
			return err
		}
		start, err := f.decimal(r.line, "the start", r.next(), 1e6)
		if err != nil {
			return err
		}
		switch {
		case fl.From == fl.To:
			f.countNotCarried(line, "flows from a host to itself are left out", fmt.Sprint(fl.From))
			continue
		case bytes == 0:
			f.countNotCarried(line, "flows of 0 bytes are left out", fmt.Sprintf("%d to %d", fl.From, fl.To))
			continue
		}
		fl.Bytes = fabric.Bytes(bytes)
		into.Ranks = max(into.Ranks, fl.From+1, fl.To+1)
		into.Flows, starts = append(into.Flows, fl), append(starts, start)
	}
	if len(into.Flows) == 0 {
		return f.fail(0, "no flow; write at least one")
	}
	first := slices.Min(starts)
	for i, s := range starts {
		into.Flows[i].At = fabric.Time(math.Round((s - first) * float64(fabric.Second)))
	}
	f.notes.add("priority groups and ports of flows are left out", "")
	if first > 0 {
		f.notes.add(fmt.Sprintf("times count from the first flow's start, %g s", first), "")
	}
	if len(r.words) > 0 {
		f.countNotCarried(r.words[0].line, fmt.Sprintf("lines behind the first %d flows are left out, as ns-3 does", count), r.words[0].text)
	}
	return nil
}
