package workload

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

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
		_, err := ReadChakra(prefix, "")
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
	if _, err := ReadChakra(prefix, ""); err != nil {
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
		_, err = n.operation(1, 2, nil, "")
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
				op, err := nd.operation(rank, n, nil, collective.Ring)
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
