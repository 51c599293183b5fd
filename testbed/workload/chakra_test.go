package workload

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// TestChakraFiles leaves a rank's file out, and puts another's in its place: each time the error names a file.
func TestChakraFiles(t *testing.T) {
	p, err := GPT{Layers: 4, Hidden: 64, Sequence: 128, Tensor: 2, Data: 2, Pipeline: 2, MicroBatches: 2}.Program()
	if err != nil {
		t.Fatal(err)
	}
	prefix := filepath.Join(t.TempDir(), "j")
	name := func(rank int) string { return fmt.Sprintf("%s.%d.et", prefix, rank) }
	if err := WriteChakra(prefix, p); err != nil {
		t.Fatal(err)
	}
	bad := func(what string, rank int) {
		t.Helper()
		_, err := Chakra{Trace: prefix}.Program()
		if !errors.Is(err, ErrProgram) && !errors.Is(err, os.ErrNotExist) || !strings.Contains(fmt.Sprint(err), prefix+".") {
			t.Errorf("%s %d: %v", what, rank, err)
		}
		if what == "without" && rank < len(p.Ranks)-1 && !strings.Contains(fmt.Sprint(err), name(rank)+" is missing") {
			t.Errorf("without %d: %v", rank, err)
		}
	}
	for rank := range p.Ranks {
		text, err := os.ReadFile(name(rank))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(name(rank)); err != nil {
			t.Fatal(err)
		}
		bad("without", rank)
		for other := range p.Ranks {
			if other == rank {
				continue
			}
			copied, err := os.ReadFile(name(other))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name(rank), copied, 0o600); err != nil {
				t.Fatal(err)
			}
			bad(fmt.Sprintf("%d in place of", other), rank)
		}
		if err := os.WriteFile(name(rank), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := (Chakra{Trace: prefix}).Program(); err != nil {
		t.Error(err)
	}
}

// attributes returns a node's attributes.
func attributes(pairs ...any) (b []byte) {
	for i := 0; i < len(pairs); i += 2 {
		a := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), pairs[i].(string))
		a = protowire.AppendVarint(protowire.AppendTag(a, 9, protowire.VarintType), uint64(pairs[i+1].(int)))
		b = protowire.AppendBytes(protowire.AppendTag(b, fieldAttr, protowire.BytesType), a)
	}
	return b
}

// TestChakraPeers reads messages whose ranks are missing or wrong. They are of rank 1 of 2.
func TestChakraPeers(t *testing.T) {
	for _, tt := range []struct {
		kind  uint64
		attrs []byte
		want  string
	}{
		{nodeSend, attributes("comm_size", 8), "no comm_dst"},
		{nodeRecv, attributes("comm_size", 8, "comm_dst", 1), "no comm_src"},
		{nodeSend, attributes("comm_dst", 2), "comm_dst is 2; the trace has files of ranks 0 to 1"},
		{nodeSend, attributes("comm_dst", 1), "comm_dst is 1"},
		{nodeSend, attributes("comm_dst", 0, "comm_src", 0), "a copy of rank 0's?"},
		{nodeRecv, attributes("comm_dst", 0, "comm_src", 0), "a copy of rank 0's?"},
		{nodeSend, attributes("comm_dst", 0, "comm_src", 1), ""},
		{nodeSend, attributes("comm_dst", 0), ""},
		{nodeRecv, attributes("comm_src", 0), ""},
	} {
		n, err := parseNode(tt.attrs)
		if err != nil {
			t.Fatal(err)
		}
		n.kind = tt.kind
		_, err = rankReader{rank: 1, ranks: 2}.operation(n)
		if tt.want == "" != (err == nil) || !strings.Contains(fmt.Sprint(err), tt.want) && tt.want != "" {
			t.Errorf("%v %v: %v, want %q", tt.kind, n.ints, err, tt.want)
		}
	}
}

// TestChakraSizes reads collectives of one comm_size, 1 MiB, and compares their bytes on the wire with what ASTRA-sim
// sends: ranks times messages of a rank times the size of a message, by its Ring.cc (all-to-all: AllToAll.cc). Written
// again, they have the same comm_size.
func TestChakraSizes(t *testing.T) {
	const size = 1 << 20
	for _, n := range []int{2, 4, 8, 64} {
		for _, tt := range []struct {
			kind     int
			messages int
			bytes    int
		}{
			{0, 2 * (n - 1), size / n}, // all-reduce
			{2, n - 1, size},           // all-gather
			{6, n - 1, size / n},       // all-to-all
			{7, n - 1, size / n},       // reduce-scatter
		} {
			p := &Program{Ranks: make([][]Op, n)}
			for rank := range n {
				nd, err := parseNode(attributes("comm_type", tt.kind, "comm_size", size))
				if err != nil {
					t.Fatal(err)
				}
				nd.kind = nodeCollective
				op, err := rankReader{Chakra: Chakra{Algorithm: collective.Ring}, rank: rank, ranks: n}.operation(nd)
				if err != nil {
					t.Fatal(err)
				}
				p.Ranks[rank] = []Op{op}
			}
			got, err := p.TotalBytes()
			if want := int64(n * tt.messages * tt.bytes); err != nil || got != want {
				t.Errorf("%s of %d ranks: %d bytes, %v, want %d", p.Ranks[0][0].What, n, got, err, want)
			}
			written, err := p.Ranks[0][0].chakra(0, 0, n, nil)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := parseNode(written); err != nil || again.ints["comm_size"] != size {
				t.Errorf("%s of %d ranks: written with comm_size %d, %v", p.Ranks[0][0].What, n, again.ints["comm_size"], err)
			}
		}
	}
	if _, err := vectorBytes(collective.AllGather, math.MaxInt64/2, 4); err == nil {
		t.Error("an all-gather of more than 8 EiB")
	}
}

// TestChakraRoofline reads computations that have operations in place of a duration. Without a GPU's rates they are
// refused.
func TestChakraRoofline(t *testing.T) {
	gpu := rankReader{Chakra: Chakra{TeraFLOPS: 2, MemoryBandwidth: 1e9}, ranks: 1}
	for _, tt := range []struct {
		attrs    []byte
		duration uint64 // us
		want     fabric.Time
	}{
		{attributes("num_ops", 4_000_000, "tensor_size", 1000), 0, 2 * fabric.Microsecond}, // by operations
		{attributes("num_ops", 4_000_000, "tensor_size", 7000), 0, 7 * fabric.Microsecond}, // by memory
		{attributes("num_ops", 4_000_000), 0, 2 * fabric.Microsecond},
		{attributes("num_ops", 4_000_000, "tensor_size", 7000), 3, 3 * fabric.Microsecond},
		{attributes("num_ops", 0, "tensor_size", 7000), 0, 0},
	} {
		n, err := parseNode(tt.attrs)
		if err != nil {
			t.Fatal(err)
		}
		n.kind, n.duration = nodeCompute, tt.duration
		if op, err := gpu.operation(n); err != nil || op.Duration != tt.want {
			t.Errorf("%v: %v, %v, want %v", n.ints, op.Duration, err, tt.want)
		}
		_, err = rankReader{ranks: 1}.operation(n)
		if needed := tt.duration == 0 && n.ints["num_ops"] > 0; needed != (err != nil) || needed && !strings.Contains(err.Error(), "write teraflops and memory_bandwidth") {
			t.Errorf("%v without rates: %v", n.ints, err)
		}
	}
	n := chakraNode{kind: nodeCompute, ints: map[string]int64{"num_ops": math.MaxInt64}}
	gpu.TeraFLOPS = 1e-12
	if _, err := gpu.operation(n); err == nil {
		t.Error("a computation of 9e18 seconds")
	}
}

// TestChakraGroups reads a trace whose file of groups has another name, and refuses a file that is missing.
func TestChakraGroups(t *testing.T) {
	dir := t.TempDir()
	prefix := filepath.Join(dir, "j")
	op := Op{Kind: Collective, What: collective.AllReduce, Bytes: 100, Group: []int{1, 2}}
	p := &Program{Ranks: [][]Op{nil, {op}, {op}}}
	if err := WriteChakra(prefix, p); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(prefix + ".groups.json")
	if err != nil || strings.Contains(string(text), `"0"`) { // others take group 0 for all ranks
		t.Fatalf("groups %s, %v", text, err)
	}
	if err := os.Rename(prefix+".groups.json", filepath.Join(dir, "comm_group.json")); err != nil {
		t.Fatal(err)
	}
	for keys, want := range map[string]string{
		"":                          "write groups: FILE",
		", groups: none.json":       "none.json",
		", groups: comm_group.json": "",
		", groups: comm_group.json, teraflops: 300":                           "without memory_bandwidth",
		", groups: comm_group.json, memory_bandwidth: 1GB":                    "without teraflops",
		", groups: comm_group.json, teraflops: 0, memory_bandwidth: 1GB":      "0 is not above 0",
		", groups: comm_group.json, teraflops: .nan, memory_bandwidth: 1GB":   "is not a number",
		", groups: comm_group.json, teraflops: 300, memory_bandwidth: 0B":     "is not above 0",
		", groups: comm_group.json, teraflops: 300, memory_bandwidth: 3350GB": "",
	} {
		path := filepath.Join(dir, "w.yaml")
		if err := os.WriteFile(path, []byte("chakra: {trace: j"+keys+"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(path, Place{Ranks: 4, Seed: 1})
		if want == "" != (err == nil) || want != "" && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", keys, err, want)
		}
	}
	all, err := rankReader{rank: 1, ranks: 3}.operation(chakraNode{
		kind: nodeCollective, ints: map[string]int64{"comm_type": 0, "comm_size": 30}, texts: map[string]string{"pg_name": "0"},
	})
	if err != nil || len(all.Group) != 3 {
		t.Errorf("group 0: %+v, %v", all, err)
	}
}

// TestChakraPyTorch reads what PyTorch's traces have, on two of four ranks: a group that means other ranks on other
// ranks, a call of a collective, a broadcast, a barrier and an all-reduce of two bytes.
func TestChakraPyTorch(t *testing.T) {
	p := &Program{Ranks: make([][]Op, 4)}
	for rank := range p.Ranks {
		pair := []int{rank &^ 1, rank | 1}
		init := chakraNode{
			id: 1, name: "## process_group:init ##", kind: nodeMetadata, duration: 7,
			inputs: fmt.Sprintf(`['[{"pg_name": "0", "ranks": []}, {"pg_name": "3", "ranks": [%d, %d], "group_size": 2}]']`, pair[0], pair[1]),
		}
		coll := func(id uint64, name, group string, pairs ...any) chakraNode {
			n, err := parseNode(attributes(pairs...))
			if err != nil {
				t.Fatal(err)
			}
			n.id, n.name, n.kind, n.deps, n.texts["pg_name"] = id, name, nodeCollective, []uint64{id - 1}, group
			return n
		}
		nodes := []chakraNode{
			init,
			coll(2, "c10d::broadcast_", "", "is_cpu_op", 1),
			coll(3, "broadcast", "3", "comm_type", 5, "comm_size", 1000),
			coll(4, "barrier", "0", "comm_type", 9),
			coll(5, "sum", "0", "comm_type", 0, "comm_size", 2),
		}
		nodes[1].duration = 85
		in := rankReader{rank: rank, ranks: 4, groups: map[string][]int{"3": {0}}, notes: &p.notes}
		in.tidy(nodes)
		ops, err := in.operations(nodes)
		if err != nil {
			t.Fatal(err)
		}
		all := []int{0, 1, 2, 3}
		if d := cmp.Diff([]Op{
			{Kind: Compute},
			{Kind: Compute, After: []int{0}, Duration: 85 * fabric.Microsecond, Unit: 1},
			{Kind: Collective, After: []int{1}, What: collective.AllGather, Group: pair, Bytes: 1000},
			{Kind: Collective, After: []int{2}, What: collective.AllReduce, Group: all, Bytes: 4},
			{Kind: Collective, After: []int{3}, What: collective.AllReduce, Group: all, Bytes: 4},
		}, ops); d != "" {
			t.Errorf("rank %d (-want +got):\n%s", rank, d)
		}
		p.Ranks[rank] = ops
	}
	if d := cmp.Diff([]string{
		"calls of collectives without comm_type or comm_size take their duration: 4, the first: rank 0, node 2 (c10d::broadcast_)",
		"broadcasts are sent as all-gathers of the same bytes: 4, the first: rank 0, node 3 (broadcast)",
		"collectives of fewer bytes than ranks are sent with one byte a rank: 4, the first: rank 0, node 5 (sum), 2 bytes",
	}, p.Notes()); d != "" {
		t.Errorf("notes (-want +got):\n%s", d)
	}
	// A broadcast puts n-1 vectors on the wire; direct all-reduces 2(n-1) shares of n ranks.
	if got, err := p.TotalBytes(); err != nil || got != 2*1000+2*2*3*4 {
		t.Errorf("%d bytes, %v", got, err)
	}
	play(t, p, 1)
	for want, pairs := range map[string][]any{
		"no comm_type":                    {"comm_size", 8},
		"no comm_size":                    {"comm_type", 0},
		"comm_size is -1":                 {"comm_type", 0, "comm_size", -1},
		"comm_type 4 is not carried out;": {"comm_type", 4, "comm_size", 8},
	} {
		n, err := parseNode(attributes(pairs...))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := (rankReader{ranks: 2}).collective(n); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", pairs, err, want)
		}
	}
	for inputs, want := range map[string]string{
		`['[{"pg_name": 3}]']`:                                     "node 1 (##",
		`['[{"pg_name": "0", "ranks": [], "group_size": 8}]']`:     `group "0" has all 8 ranks; dir/j.2.et is missing`,
		`['[{"pg_name": "0", "ranks": [], "group_size": 2}]']`:     "",
		`['[{"pg_name": "0", "ranks": [0, 1], "group_size": 2}]']`: "",
	} {
		init := chakraNode{id: 1, name: "## process_group:init ##", kind: nodeMetadata, inputs: inputs}
		_, err := rankReader{Chakra: Chakra{Trace: "dir/j"}, ranks: 2}.ownGroups([]chakraNode{init})
		if want == "" != (err == nil) || want != "" && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", inputs, err, want)
		}
	}
}

// TestChakraStreams: a GPU runs the kernels of a stream one after another, streams run at the same time, and so does
// the CPU beside them.
func TestChakraStreams(t *testing.T) {
	var notes []note
	in := rankReader{ranks: 1, notes: &notes}
	var nodes []chakraNode
	for i, a := range [][]any{
		{"is_cpu_op", 0, "stream", 7}, {"is_cpu_op", 0, "stream", 7}, {"is_cpu_op", 0, "stream", 20},
		{"is_cpu_op", 1}, {"is_cpu_op", 1}, {"is_cpu_op", 0, "stream", 7}, {"is_cpu_op", 1}, {"is_cpu_op", 1},
	} {
		n, err := parseNode(attributes(a...))
		if err != nil {
			t.Fatal(err)
		}
		n.id, n.kind, n.duration = uint64(i+1), nodeCompute, uint64(10*(i+1))
		switch i { // the call of a collective, and one of memory, are operations of the CPU too
		case 6:
			n.kind = nodeCollective
		case 7:
			n.kind = 2
		}
		nodes = append(nodes, n)
	}
	ops, err := in.operations(nodes)
	if err != nil {
		t.Fatal(err)
	}
	p := &Program{Name: "streams", Ranks: [][]Op{ops}}
	if got, want := p.LongestCompute(), 240*fabric.Microsecond; got != want {
		t.Errorf("the longest computation is %v, want %v", got, want)
	}
	r, err := NewRunner(p)
	if err != nil {
		t.Fatal(err)
	}
	none := func(collective.Send) { t.Error("a message") }
	r.Start(0, none)
	var ends []fabric.Time
	for at, ok := r.Deadline(); ok; at, ok = r.Deadline() {
		r.Tick(at, none)
		ends = append(ends, at/fabric.Microsecond)
	}
	if diff := cmp.Diff([]fabric.Time{10, 30, 40, 90, 160, 240}, ends); diff != "" || !r.Finished() {
		t.Errorf("computations end (-want +got):\n%s", diff)
	}
}
