package workload

import (
	"fmt"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// GPT is one training iteration of a GPT-like model, divided into tensor, data and pipeline parallel parts. The
// zero value of a field means GPT-117M's, or 1.
type GPT struct {
	Layers   int `yaml:"layers"`   // number of layers, a multiple of Pipeline; default 12
	Hidden   int `yaml:"hidden"`   // hidden size; default 768
	Sequence int `yaml:"sequence"` // tokens of a sequence; default 1024

	Tensor   int `yaml:"tensor"`   // number of ranks that share each layer
	Data     int `yaml:"data"`     // number of replicas
	Pipeline int `yaml:"pipeline"` // number of pipeline stages

	MicroBatch   int     `yaml:"micro_batch"`   // sequences of a micro-batch; default 4
	MicroBatches int     `yaml:"micro_batches"` // micro-batches per iteration and replica
	Element      int     `yaml:"element"`       // bytes of a number; default 2
	TeraFLOPS    float64 `yaml:"teraflops"`     // achieved by a GPU, in 10^12 operations per second; default 300

	Algorithm string `yaml:"algorithm"` // algorithm of the all-reduces; direct if empty
	// InOrder makes the all-reduces of gradients wait for each other, as those of one NCCL communicator do.
	InOrder bool `yaml:"in_order"`
	// Scale divides the bytes of each transfer and the durations of computations. 1 is the model's own size.
	Scale int `yaml:"scale"`
}

func (g GPT) withDefaults() GPT {
	for _, d := range []struct {
		v  *int
		to int
	}{{&g.Layers, 12}, {&g.Hidden, 768}, {&g.Sequence, 1024}, {&g.Tensor, 1}, {&g.Data, 1}, {&g.Pipeline, 1},
		{&g.MicroBatch, 4}, {&g.MicroBatches, 1}, {&g.Element, 2}, {&g.Scale, 1}} {
		if *d.v == 0 {
			*d.v = d.to
		}
	}
	if g.TeraFLOPS == 0 {
		g.TeraFLOPS = 300
	}
	return g
}

// complain calls say for each error: the key, the problem, and the remedy.
func (g GPT) complain(say func(key, problem, remedy string)) {
	g = g.withDefaults()
	wrong := false
	for _, c := range []struct {
		key   string
		value int
	}{{"layers", g.Layers}, {"hidden", g.Hidden}, {"sequence", g.Sequence}, {"tensor", g.Tensor}, {"data", g.Data},
		{"pipeline", g.Pipeline}, {"micro_batch", g.MicroBatch}, {"micro_batches", g.MicroBatches}, {"element", g.Element},
		{"scale", g.Scale}} {
		if c.value < 1 || c.value > 1<<20 {
			say(c.key, fmt.Sprintf("%d is outside 1 to %d", c.value, 1<<20), "write 1 or more")
			wrong = true
		}
	}
	if !(g.TeraFLOPS > 0) {
		say("teraflops", fmt.Sprintf("%v is not above 0", g.TeraFLOPS), "write for example 300")
		wrong = true
	}
	if wrong {
		return
	}
	ranks := atMost(collective.MaxRanks, g.Tensor, g.Data, g.Pipeline)
	switch {
	case g.Layers%g.Pipeline != 0:
		say("layers", fmt.Sprintf("%d is not a multiple of pipeline (%d)", g.Layers, g.Pipeline), "write one that is")
	case ranks < 0:
		say("", fmt.Sprintf("tensor x data x pipeline is more than %d ranks", collective.MaxRanks), "use fewer")
	case atMost(maxOps, int(ranks), g.MicroBatches, g.Layers/g.Pipeline, 8) < 0:
		say("", fmt.Sprintf("%d ranks make more than %d operations", ranks, maxOps), "use fewer")
	case int64(g.Scale) > g.leastBytes()/ranks:
		say("scale", fmt.Sprintf("%d leaves less than a byte per rank", g.Scale), "use a smaller one")
	case atMost(maxTransfer, g.MicroBatch, g.Sequence, g.Hidden, g.Element) < 0 ||
		atMost(maxTransfer, 12, g.Hidden, g.Hidden, g.Element) < 0:
		say("", fmt.Sprintf("activations or a layer's gradients are more than %d bytes", int64(maxTransfer)),
			"use fewer of hidden, sequence, micro_batch or element")
	default:
		if limit := 1000 * fabric.Second; !(g.forward() <= float64(limit)) {
			say("", fmt.Sprintf("a layer's forward pass takes more than %v", limit), "use a smaller model, or more teraflops")
		}
	}
}

// leastBytes returns the bytes of the smallest transfer, of the model's own size.
func (g GPT) leastBytes() int64 {
	return min(int64(g.MicroBatch)*int64(g.Sequence)*int64(g.Hidden)*int64(g.Element),
		12*int64(g.Hidden)*int64(g.Hidden)/int64(g.Tensor)*int64(g.Element))
}

// maxOps bounds a program, because a few numbers can make a large one.
const maxOps = 4 << 20

// Program returns the iteration. Ranks are numbered tensor first, then data, then pipeline, so that the ranks with
// most communication are neighbours.
//
// Every stage processes its micro-batches forward, then backward. A layer computes and, where it is shared,
// all-reduces the activations twice, forward and backward; stages pass activations and gradients on. At the end
// each replica's gradients are all-reduced, layer by layer, the last first, each as soon as its last backward pass
// is done.
func (g GPT) Program() (*Program, error) {
	var bad error
	g.complain(func(key, problem, remedy string) {
		if bad == nil {
			bad = fmt.Errorf("%w: %s: %s; %s", ErrProgram, strings.TrimSuffix("gpt."+key, "."), problem, remedy)
		}
	})
	if bad != nil {
		return nil, bad
	}
	g = g.withDefaults()
	ranks := atMost(collective.MaxRanks, g.Tensor, g.Data, g.Pipeline)
	p := &Program{Name: "gpt", Ranks: make([][]Op, ranks)}
	for r := range int(ranks) {
		p.Ranks[r] = g.rank(r)
	}
	return p, nil
}

// forward returns the duration of a layer's forward pass in picoseconds, scaled: the multiplications and additions of
// its weights, and of attention over the sequence.
func (g GPT) forward() float64 {
	tokens, h, s := float64(g.MicroBatch)*float64(g.Sequence), float64(g.Hidden), float64(g.Sequence)
	return tokens * (24*h*h + 4*h*s) / float64(g.Tensor) / (g.TeraFLOPS * 1e12) * float64(fabric.Second) / float64(g.Scale)
}

// maxTransfer is the largest size of a collective, in bytes.
const maxTransfer = 1 << 40

// atMost returns the product of factors of at least 1, or -1 if it is above limit.
func atMost(limit int64, factors ...int) int64 {
	product := int64(1)
	for _, f := range factors {
		if int64(f) > limit/product {
			return -1
		}
		product *= int64(f)
	}
	return product
}

// rank returns the operations of one rank.
func (g GPT) rank(r int) []Op {
	tensor, data, stage := r%g.Tensor, r/g.Tensor%g.Data, r/(g.Tensor*g.Data)
	at := func(t, d, s int) int { return (s*g.Data+d)*g.Tensor + t }
	var tensorGroup, dataGroup []int
	for t := range g.Tensor {
		tensorGroup = append(tensorGroup, at(t, data, stage))
	}
	for d := range g.Data {
		dataGroup = append(dataGroup, at(tensor, d, stage))
	}
	layers := g.Layers / g.Pipeline
	forward := fabric.Time(g.forward())
	activations := int64(g.MicroBatch) * int64(g.Sequence) * int64(g.Hidden) * int64(g.Element) / int64(g.Scale)
	gradients := 12 * int64(g.Hidden) * int64(g.Hidden) / int64(g.Tensor) * int64(g.Element) / int64(g.Scale)

	var ops []Op
	last := -1    // the previous operation in this rank's only stream of computation
	reduced := -1 // the previous all-reduce of gradients, if this one waits for it
	add := func(op Op, after ...int) int {
		for _, a := range after {
			if a >= 0 {
				op.After = append(op.After, a)
			}
		}
		ops = append(ops, op)
		return len(ops) - 1
	}
	layer := func(duration fabric.Time) {
		last = add(Op{Kind: Compute, Duration: duration}, last)
		for range 2 {
			if g.Tensor > 1 {
				last = add(Op{Kind: Collective, What: collective.AllReduce, Algorithm: g.Algorithm, Group: tensorGroup, Bytes: activations}, last)
			}
		}
	}
	message := func(kind Kind, peer int, tag uint64) int {
		return add(Op{Kind: kind, Peer: peer, Tag: tag, Bytes: activations}, last)
	}
	for m := range uint64(g.MicroBatches) {
		if stage > 0 {
			last = message(Recv, at(tensor, data, stage-1), 2*m)
		}
		for range layers {
			layer(forward)
		}
		if stage < g.Pipeline-1 {
			message(Send, at(tensor, data, stage+1), 2*m) // later operations do not wait for it
		}
	}
	for m := range uint64(g.MicroBatches) {
		if stage < g.Pipeline-1 {
			last = message(Recv, at(tensor, data, stage+1), 2*m+1)
		}
		for range layers {
			layer(2 * forward)
			if m == uint64(g.MicroBatches)-1 && g.Data > 1 {
				op := Op{Kind: Collective, What: collective.AllReduce, Algorithm: g.Algorithm, Group: dataGroup, Bytes: gradients}
				if o := add(op, last, reduced); g.InOrder {
					reduced = o
				}
			}
		}
		if stage > 0 {
			message(Send, at(tensor, data, stage-1), 2*m+1)
		}
	}
	return ops
}
