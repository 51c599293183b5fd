package workload

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// play carries a program out with messages that arrive in random order, and
// returns what each rank received, in bytes, and when all was done.
func play(t *testing.T, p *Program, seed uint64) (received []int64, end fabric.Time) {
	t.Helper()
	r, err := NewRunner(p)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	received = make([]int64, len(p.Ranks))
	var flying []collective.Send
	ids := map[collective.ID]bool{}
	emit := func(s collective.Send) {
		if ids[s.ID] || s.ID.Src() != s.Src || s.ID.Dst() != s.Dst {
			t.Fatalf("message %v of %+v", s.ID, s)
		}
		ids[s.ID] = true
		flying = append(flying, s)
	}
	now := fabric.Time(0)
	r.Start(now, emit)
	for !r.Finished() {
		at, computing := r.Deadline()
		switch {
		case len(flying) > 0 && (!computing || rng.IntN(2) == 0):
			i := rng.IntN(len(flying))
			s := flying[i]
			flying[i] = flying[len(flying)-1]
			flying = flying[:len(flying)-1]
			received[s.Dst] += s.Bytes
			if err := r.Received(now, s.ID, emit); err != nil {
				t.Fatal(err)
			}
			if err := r.Sent(now, s.ID, emit); err != nil {
				t.Fatal(err)
			}
		case computing:
			now = at
			r.Tick(now, emit)
		default:
			t.Fatal("nothing is left to happen, and ranks are not done")
		}
	}
	if len(flying) > 0 {
		t.Errorf("%d messages are on their way after the end", len(flying))
	}
	return received, now
}

// TestJobs: each job's ranks receive what the job alone would have them receive,
// and ranks of none receive nothing.
func TestJobs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.yaml")
	text := `jobs:
  - {kind: all-reduce, algorithm: ring, bytes: 8000B, ranks: "0..6/2", repeat: 3}
  - {kind: all-to-all, bytes: 4000B, ranks: "1,3,5,7", at: 10us}
  - {kind: incast, bytes: 100B, ranks: "8..10"}
`
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	p, err := Load(path, Place{Ranks: 12, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(20) {
		got, end := play(t, p, seed)
		// Ring: 2(N-1) shares of 2000 B, three times. All-to-all: N-1 of 1000 B.
		want := []int64{36000, 3000, 36000, 3000, 36000, 3000, 36000, 3000, 200, 0, 0, 0}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("bytes received (-want +got):\n%s", d)
		}
		if end != 10*fabric.Microsecond || p.LongestCompute() != end {
			t.Errorf("done at %v, longest computation %v", end, p.LongestCompute())
		}
	}
}

// TestGPT: what a rank receives follows from the model by hand.
func TestGPT(t *testing.T) {
	g := GPT{Layers: 4, Hidden: 64, Sequence: 128, Tensor: 2, Data: 2, Pipeline: 2, MicroBatch: 1, MicroBatches: 3, Algorithm: collective.Ring}
	p, err := g.Program()
	if err != nil {
		t.Fatal(err)
	}
	const activations = 128 * 64 * 2
	const gradients = 12 * 64 * 64 / 2 * 2
	// Two layers a stage; 2 all-reduces a layer each way over two ranks, each of
	// which brings a rank the whole vector; one message a micro-batch from the
	// other stage; a gradient all-reduce a layer over two ranks.
	const want = 3*2*4*activations + 3*activations + 2*gradients
	got, end := play(t, p, 1)
	for r, b := range got {
		if b != want {
			t.Errorf("rank %d received %d bytes, want %d", r, b, want)
		}
	}
	if end < p.LongestCompute() {
		t.Errorf("done at %v, before its computation (%v)", end, p.LongestCompute())
	}
	// In order, a layer's gradients are reduced after those of the layer behind it; scaled, by a quarter of the bytes.
	g.InOrder, g.Scale = true, 4
	if p, err = g.Program(); err != nil {
		t.Fatal(err)
	}
	if last := p.Ranks[0][len(p.Ranks[0])-1]; last.Bytes != gradients/4 || len(last.After) != 2 {
		t.Errorf("the last all-reduce of gradients is %+v; want %d bytes, after two operations", last, gradients/4)
	}
	if got, _ := play(t, p, 1); got[0] != want/4 {
		t.Errorf("at scale 4 rank 0 received %d bytes, want %d", got[0], want/4)
	}
	// The reference's figure for GPT-117M.
	p, err = GPT{Tensor: 2}.Program()
	if err != nil {
		t.Fatal(err)
	}
	if b := p.Ranks[0][1].Bytes; b != 6_291_456 {
		t.Errorf("a layer's all-reduce is of %d bytes, want 6291456", b)
	}
}

// TestGPTTooLarge: numbers that no model has are refused, not wrapped round.
func TestGPTTooLarge(t *testing.T) {
	const most = 1 << 20
	for name, g := range map[string]GPT{
		"ranks":       {Tensor: most, Data: most, Pipeline: most, Layers: most},
		"ranks, just": {Tensor: 1 << 10, Data: 1 << 10, Pipeline: 1 << 10, Layers: most},
		"operations":  {Tensor: 64, MicroBatches: most, Layers: most},
		"activations": {MicroBatch: most, Sequence: most, Hidden: most, Element: most},
		"gradients":   {Hidden: most, MicroBatch: 1, Sequence: 1, Element: most},
		"time":        {TeraFLOPS: 1e-12},
		"teraflops":   {TeraFLOPS: math.NaN()},
	} {
		if p, err := g.Program(); !errors.Is(err, ErrProgram) {
			t.Errorf("%s: %v, program %v", name, err, p != nil)
		}
	}
}

// TestChakra writes a program as a trace and reads the same again.
func TestChakra(t *testing.T) {
	p, err := GPT{Layers: 4, Hidden: 64, Sequence: 128, Tensor: 2, Data: 2, Pipeline: 2, MicroBatches: 2}.Program()
	if err != nil {
		t.Fatal(err)
	}
	for _, ops := range p.Ranks {
		for o := range ops {
			ops[o].Duration = (ops[o].Duration + fabric.Microsecond - 1) / fabric.Microsecond * fabric.Microsecond
		}
	}
	prefix := filepath.Join(t.TempDir(), "gpt")
	if err := WriteChakra(prefix, p); err != nil {
		t.Fatal(err)
	}
	got, err := Chakra{Trace: prefix}.Program()
	if err != nil {
		t.Fatal(err)
	}
	for _, ops := range p.Ranks {
		for o := range ops {
			if ops[o].Kind == Compute {
				ops[o].Unit = 2 // as a trace without streams has it
			}
		}
	}
	if d := cmp.Diff(p.Ranks, got.Ranks, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("(-written +read):\n%s", d)
	}
	play(t, got, 1)
}

// A trace cut out of a longer one waits for nodes that are not there. They are left out and counted, and the rest keeps
// its order.
func TestDangling(t *testing.T) {
	nodes := []chakraNode{
		{id: 216, name: "a", kind: nodeCompute, deps: []uint64{3, 4}},
		{id: 217, name: "b", kind: nodeCompute, deps: []uint64{216, 3}},
	}
	p := &Program{}
	in := rankReader{ranks: 1, notes: &p.notes}
	in.dropDangling(nodes)
	want := []string{"dependencies on nodes that are not there are left out: 3, the first: rank 0, node 216 (a) waits for node 3"}
	if d := cmp.Diff(want, p.Notes()); d != "" {
		t.Errorf("notes (-want +got):\n%s", d)
	}
	ops, err := in.operations(nodes)
	if err != nil {
		t.Fatal(err)
	}
	if len(ops[0].After) != 0 || !slices.Equal(ops[1].After, []int{0}) {
		t.Errorf("%+v", ops)
	}
	in.dropDangling(nodes)
	if d := cmp.Diff(want, p.Notes()); d != "" {
		t.Errorf("dropped again:\n%s", d)
	}
}

// Profilers' control dependencies are calls, which make circles with the data's. Then the data's alone count; a circle
// of those is refused.
func TestControlCircle(t *testing.T) {
	nodes := []chakraNode{{id: 1, kind: nodeCompute, ctrl: []uint64{2}}, {id: 2, kind: nodeCompute, deps: []uint64{1}}}
	p := &Program{}
	in := rankReader{ranks: 1, notes: &p.notes}
	in.tidy(nodes)
	if notes := strings.Join(p.Notes(), "; "); notes != "dependencies on control make a circle and are left out: 1, "+
		"the first: rank 0, node 1 () waits for node 2" {
		t.Errorf("%q", notes)
	}
	ops, err := in.operations(nodes)
	if err != nil || !slices.Equal(ops[1].After, []int{0}) {
		t.Errorf("%+v, %v", ops, err)
	}
	nodes[0].deps = []uint64{2}
	in.tidy(nodes)
	if _, err := in.operations(nodes); !errors.Is(err, errCircle) {
		t.Errorf("a circle of data: %v", err)
	}
}

func TestBad(t *testing.T) {
	for text, want := range map[string]string{
		"job: []": "job: unknown key; did you mean jobs?",
		"{}":      "0 of jobs, gpt, chakra, matrix, flows and poisson",
		"gpt: {tensor: 3, layers: 5, pipeline: 2}":                "not a multiple of pipeline",
		"gpt: {tensor: 8, scale: 1000000}":                        "less than a byte per rank",
		"jobs: [{kind: all-reduce, bytes: 1MB, ranks: 0..99}]":    "rank 99 is not there",
		"jobs: [{kind: all-reduce, bytes: 1MB, ranks: '0..2,1'}]": "twice",
		"jobs: [{kind: all-reduces, bytes: 1MB}]":                 `kind "all-reduces" is unknown`,
		"chakra: {trace: none}":                                   "a trace is PREFIX.0.et",
	} {
		path := filepath.Join(t.TempDir(), "w.yaml")
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path, Place{Ranks: 8, Seed: 1}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}

func FuzzChakra(f *testing.F) {
	op := Op{Kind: Collective, What: collective.AllReduce, Bytes: 100, Group: []int{0, 1}, After: []int{0}}
	a, err := op.chakra(1, 0, 4, map[string][]int{})
	if err != nil {
		f.Fatal(err)
	}
	b, err := (Op{Kind: Compute, Duration: 5}).chakra(0, 0, 4, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(framed(framed(framed(nil, nil), b), a))
	f.Fuzz(func(t *testing.T, data []byte) {
		nodes, err := readNodes(bytes.NewReader(data))
		if err != nil {
			return
		}
		ops, err := rankReader{Chakra{Algorithm: "ring"}, 0, 4, map[string][]int{"0": {0, 1}}, new([]note)}.operations(nodes)
		if err != nil {
			return
		}
		p := &Program{Name: "fuzz", Ranks: [][]Op{ops, nil, nil, nil}}
		if _, _, err := p.link(); err == nil {
			if _, err := NewRunner(p); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestMatrix: each rank receives what its column says of others, in units; what is wrong
// is named with the matrix's file, line and column.
func TestMatrix(t *testing.T) {
	dir := t.TempDir()
	load := func(csv, more string) (*Program, error) {
		for name, text := range map[string]string{"m.csv": csv, "w.yaml": "matrix: {file: m.csv" + more + "}\n"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return Load(filepath.Join(dir, "w.yaml"), Place{Ranks: 4, Seed: 1})
	}
	p, err := load("# tokens by expert\n9,1,2\n3, 9,0\n\n0,5,9\n", ", unit: 1KB")
	if err != nil {
		t.Fatal(err)
	}
	received, _ := play(t, p, 1)
	if diff := cmp.Diff([]int64{3000, 6000, 2000, 0}, received); diff != "" {
		t.Error(diff)
	}
	for csv, want := range map[string]string{
		"1,2\n3\n":                       "m.csv:2:1: 1 numbers; the file has 2 lines, so write 2",
		"0,1\n# two\n-1,0\n":             `m.csv:3:1: "-1" is no number`,
		"0,1\n1, 2x\n":                   `m.csv:2:4: "2x" is no number`,
		"0,1\n1,99999999999999999999\n":  `what rank 1 sends to rank 1`,
		"0,\"1\n1,0\n":                   "m.csv:2:5: extraneous",
		"":                               "m.csv:1:1: 0 lines of numbers",
		"5,0\n0,5\n":                     "no rank sends anything",
		strings.Repeat("0,1,1,1,1\n", 5): "it has 5 ranks, and the fabric 4",
	} {
		if _, err := load(csv, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", csv, err, want)
		}
	}
	for _, unit := range []string{"2GB", "0B", "-1B"} {
		if _, err := load("0,1\n1,0\n", ", unit: "+unit); err == nil || !strings.Contains(err.Error(), "matrix.unit") {
			t.Errorf("unit of %s: %v", unit, err)
		}
	}
}

func FuzzMatrix(f *testing.F) {
	f.Add([]byte("0,1\n1,0\n"))
	f.Add([]byte("# a\n0,\"1\"\n 1,0"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := readMatrix("m.csv", data, 1)
		if err != nil {
			if !errors.Is(err, ErrProgram) {
				t.Errorf("error %v is no ErrProgram", err)
			}
			return
		}
		if _, err := NewRunner(p); err != nil {
			t.Error(err)
		}
	})
}
