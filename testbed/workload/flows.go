package workload

import (
	"fmt"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/strictyaml"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// Limits of flows: a file of 130,000 flows has 8 MiB.
const (
	maxFlowBytes  = 8 << 20
	maxFlowValues = 2 << 20
)

// Flow is a message from one rank to another. It begins at a time, or a time after an event. Flows raise events.
type Flow struct {
	From  int          `yaml:"from"`
	To    int          `yaml:"to"`
	Bytes fabric.Bytes `yaml:"bytes" required:"for example 2MB"`
	At    fabric.Time  `yaml:"at,omitempty"`    // start time; with after, the time from that event to the start
	After string       `yaml:"after,omitempty"` // name of the event that the flow waits for
	Count int          `yaml:"count,omitempty"` // how often that event must have been raised; 1 if absent

	Sent     string `yaml:"sent,omitempty"`     // raised when the sender has the last acknowledgement
	Received string `yaml:"received,omitempty"` // raised when the receiver has the last byte
}

// flowRanks returns the number of ranks that flows name.
func flowRanks(flows []Flow) int {
	most := 0
	for _, f := range flows {
		most = max(most, f.From+1, f.To+1)
	}
	return most
}

// addFlows adds flows to a program that has all their ranks. Each is a message with its own tag.
func addFlows(p *Program, flows []Flow, d *strictyaml.Decoder) {
	raised := map[string]int{}
	for _, f := range flows {
		for _, event := range []string{f.Sent, f.Received} {
			raised[event]++
		}
	}
	for i, f := range flows {
		path := fmt.Sprintf("flows[%d]", i)
		if !f.check(path, len(p.Ranks), raised, d) {
			return
		}
		begin := Op{Kind: Compute, Duration: f.At, Awaits: f.After}
		if f.After != "" {
			begin.Times = max(f.Count, 1)
		}
		send := Op{Kind: Send, Bytes: int64(f.Bytes), Peer: f.To, Tag: uint64(i), Raises: f.Sent}
		if begin.Duration > 0 || begin.Awaits != "" {
			p.Ranks[f.From] = append(p.Ranks[f.From], begin)
			send.After = []int{len(p.Ranks[f.From]) - 1}
		}
		p.Ranks[f.From] = append(p.Ranks[f.From], send)
		p.Ranks[f.To] = append(p.Ranks[f.To], Op{Kind: Recv, Bytes: int64(f.Bytes), Peer: f.From, Tag: uint64(i), Raises: f.Received})
	}
	if i, ok := firstStuck(p); ok && d.OK() {
		d.Complain(fmt.Sprintf("flows[%d].after", i), fmt.Sprintf("event %q is not raised before the flow itself ends", flows[i].After),
			"let a flow raise it that does not wait for this one")
	}
}

func (f Flow) check(path string, ranks int, raised map[string]int, d *strictyaml.Decoder) bool {
	for _, end := range []struct {
		key  string
		rank int
	}{{".from", f.From}, {".to", f.To}} {
		if end.rank < 0 || end.rank >= ranks {
			d.Complain(path+end.key, fmt.Sprintf("rank %d is not there; the fabric has 0 to %d", end.rank, ranks-1), "name one of them")
			return false
		}
	}
	switch {
	case f.From == f.To:
		d.Complain(path+".to", "a flow from a rank to itself", "name another rank, or leave the flow out")
	case f.Bytes < 1:
		d.Complain(path+".bytes", fmt.Sprintf("%v is no message", f.Bytes), "write for example 2MB")
	case f.At < 0:
		d.Complain(path+".at", fmt.Sprintf("%v is before the start", f.At), "write 0us or more")
	case f.Count < 0 || f.Count > 0 && f.After == "":
		d.Complain(path+".count", "it counts how often the event of after was raised", "write after, and a count of 1 or more")
	case f.After != "" && raised[f.After] < max(f.Count, 1):
		d.Complain(path+".after", fmt.Sprintf("event %q is raised %d times", f.After, raised[f.After]),
			"name an event that flows raise with sent or received as often as count says")
	default:
		return true
	}
	return false
}

// firstStuck carries flows out in no time, and returns the first that does not begin: flows that wait for each other.
func firstStuck(p *Program) (flow int, stuck bool) {
	r, err := NewRunner(p)
	if err != nil {
		return 0, false // the caller of the program reports it
	}
	var flying []collective.Send
	emit := func(s collective.Send) { flying = append(flying, s) }
	r.Start(0, emit)
	for at, waits := r.Deadline(); len(flying) > 0 || waits; at, waits = r.Deadline() {
		if len(flying) == 0 {
			r.Tick(at, emit)
			continue
		}
		s := flying[len(flying)-1]
		flying = flying[:len(flying)-1]
		if r.Received(at, s.ID, emit) != nil || r.Sent(at, s.ID, emit) != nil {
			return 0, false
		}
	}
	flow = -1
	for rank, ops := range p.Ranks {
		for o, op := range ops {
			if op.Kind == Send && !r.ended[rank][o] && (flow < 0 || int(op.Tag) < flow) {
				flow = int(op.Tag)
			}
		}
	}
	return flow, flow >= 0
}
