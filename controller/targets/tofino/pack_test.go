package tofino

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ethereal-fabric/ethereal/controller/targets"
)

func chip() targets.Compiled {
	return targets.Compiled{
		Name: "ethereal", BFRT: []byte(`{"tables":[{"name":"pipe.route"}]}`),
		Context: []byte(`{"target":"tofino","tables":[{"name":"route"}]}`),
		Binary:  []byte{0, 1, 2, 0xff}, Pipes: []uint32{0, 1},
		Info: &p4config.P4Info{Tables: []*p4config.Table{{Preamble: &p4config.Preamble{Name: "route"}}}},
	}
}

// fields splits a protobuf message into its length-delimited fields.
func fields(t *testing.T, b []byte) map[protowire.Number][][]byte {
	t.Helper()
	out := map[protowire.Number][][]byte{}
	for len(b) > 0 {
		n, typ, size := protowire.ConsumeTag(b)
		if size < 0 || typ != protowire.BytesType {
			t.Fatalf("field %d of type %d", n, typ)
		}
		v, vsize := protowire.ConsumeBytes(b[size:])
		if vsize < 0 {
			t.Fatal(protowire.ParseError(vsize))
		}
		out[n] = append(out[n], v)
		b = b[size+vsize:]
	}
	return out
}

func TestPackStratum(t *testing.T) {
	c := chip()
	blob, err := Stratum.Pack(c)
	if err != nil {
		t.Fatal(err)
	}
	top := fields(t, blob)
	if string(top[1][0]) != c.Name || !bytes.Equal(top[2][0], c.BFRT) || len(top[3]) != 1 {
		t.Errorf("p4_name %q, bfruntime_info %q, %d profiles", top[1], top[2], len(top[3]))
	}
	want := map[protowire.Number][][]byte{1: {[]byte("pipe")}, 2: {c.Context}, 3: {c.Binary}, 4: {{0, 1}}}
	if diff := cmp.Diff(want, fields(t, top[3][0])); diff != "" {
		t.Errorf("profile (-want +got):\n%s", diff)
	}
}

func TestPackPI(t *testing.T) {
	c := chip()
	blob, err := SDE.Pack(c)
	if err != nil {
		t.Fatal(err)
	}
	var parts [][]byte
	for len(blob) > 0 {
		n := binary.LittleEndian.Uint32(blob)
		parts = append(parts, blob[4:4+n])
		blob = blob[4+n:]
	}
	if diff := cmp.Diff([][]byte{[]byte(c.Name), c.Binary, c.Context}, parts); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestPackRefuses(t *testing.T) {
	for _, tt := range []struct {
		kind   Kind
		change func(*targets.Compiled)
		want   string
	}{
		{Stratum, func(c *targets.Compiled) { c.Binary = nil }, "binary missing"},
		{Stratum, func(c *targets.Compiled) { c.Context, c.Binary, c.BFRT = nil, nil, nil }, "bf_rt, context, binary missing"},
		{SDE, func(c *targets.Compiled) { c.Context = []byte("<") }, "context: targets: is not JSON"},
		{SDE, func(c *targets.Compiled) { c.Context, c.Binary = []byte("{}"), nil }, "context: targets: has no tables"},
		{SDE, func(c *targets.Compiled) { c.Binary = []byte("{}") }, "binary: targets: is JSON"},
		{SDE, func(c *targets.Compiled) { c.Name = "" }, "no name"},
		{Stratum2, func(*targets.Compiled) {}, `of a program for the chip "tofino", not "tofino2"`},
		{Stratum, func(c *targets.Compiled) { c.BFRT = []byte("{}") }, "bf_rt: targets: has no tables"},
		{Stratum, func(c *targets.Compiled) { c.Info.Tables[0].Preamble.Name = "other" }, "has no table other of the P4Info"},
	} {
		c := chip()
		tt.change(&c)
		if _, err := tt.kind.Pack(c); !errors.Is(err, targets.ErrProfile) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.kind.Name(), err, tt.want)
		}
	}
}
