package targets

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/fabric"
)

func chip() Compiled {
	return Compiled{
		Name: "ethereal", BFRT: []byte(`{"schema_version":"1.0.0"}`), Context: []byte(`{"program":"ethereal"}`),
		Binary: []byte{0, 1, 2, 0xff}, Pipes: []uint32{0, 1},
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
	p, err := ByName("stratum-tofino")
	if err != nil {
		t.Fatal(err)
	}
	c := chip()
	blob, err := p.Pack(c)
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
	p, err := ByName("tofino-sde")
	if err != nil {
		t.Fatal(err)
	}
	c := chip()
	blob, err := p.Pack(c)
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
		profile string
		change  func(*Compiled)
		want    string
	}{
		{"bmv2", func(c *Compiled) { c.JSON = []byte("{") }, "not the BMv2 JSON"},
		{"stratum-tofino", func(c *Compiled) { c.Binary = nil }, "pipe/tofino.bin is missing"},
		{"tofino-sde", func(c *Compiled) { c.Context = []byte("<") }, "context.json is not JSON"},
		{"tofino-sde", func(c *Compiled) { c.Name = "" }, "no name"},
		{"stratum-tofino2", func(c *Compiled) { c.BFRT = nil }, "bf-rt.json is missing"},
	} {
		p, err := ByName(tt.profile)
		if err != nil {
			t.Fatal(err)
		}
		c := chip()
		tt.change(&c)
		if _, err := p.Pack(c); !errors.Is(err, ErrProfile) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.profile, err, tt.want)
		}
	}
}

func TestProfiles(t *testing.T) {
	for _, name := range Names() {
		p, err := ByName(name)
		if err != nil {
			t.Fatal(err)
		}
		if p.Pack == nil || (p.QueueUnit > 0) != (p.Program == TNA || p.Program == T2NA) {
			t.Errorf("%s: %+v", name, p)
		}
		if lacks := p.LacksTable(controller.PortOfUplink); lacks != (p.Program != V1Model) {
			t.Errorf("%s: runs %v and lacks port_of_uplink: %v", name, p.Program, lacks)
		}
	}
	if _, err := ByName("tofino"); !errors.Is(err, ErrProfile) || !strings.Contains(err.Error(), "stratum-tofino") {
		t.Errorf("an unknown name: %v", err)
	}
	if p, err := ByName(""); err != nil || p.Name != Default {
		t.Errorf("no name: %+v, %v", p, err)
	}
}

func TestPortMap(t *testing.T) {
	m, err := NewPortMap([]Port{{Name: "1/0", ID: 128, Lanes: 4}, {Name: "2/0", ID: 136, Lanes: 4}})
	if err != nil {
		t.Fatal(err)
	}
	for p, want := range map[fabric.PortNo]Port{1: {Name: "1/0", ID: 128}, 2: {Name: "2/0", ID: 136}} {
		id, ok := m.ID(p)
		back, ok2 := m.Port(id)
		named, ok3 := m.ByName(m.Name(p))
		if id != want.ID || m.Name(p) != want.Name || back != p || named != p || !ok || !ok2 || !ok3 {
			t.Errorf("port %d: id %d, name %q, back %d and %d", p, id, m.Name(p), back, named)
		}
	}
	if _, ok := m.ID(3); ok || m.Name(0) != "" {
		t.Error("ports that are not mapped have a number or a name")
	}
	var identity *PortMap
	if id, ok := identity.ID(7); id != 7 || !ok || identity.Name(7) != "Ethernet7" {
		t.Errorf("identity: %d, %v, %q", id, ok, identity.Name(7))
	}
	for _, tt := range []struct {
		ports []Port
		want  string
	}{
		{[]Port{{ID: 1}}, "port 1: name: missing"},
		{[]Port{{Name: "a", ID: 508}}, "id: 508 is above 507"},
		{[]Port{{Name: "a", ID: 1}, {Name: "b", ID: 1}}, "port 2: id: 1 is port 1's"},
		{[]Port{{Name: "a", ID: 1}, {Name: "a", ID: 2}}, "port 2: name: a is port 1's"},
		{[]Port{{Name: "a", ID: 1, Lanes: 9}}, "lanes: 9"},
	} {
		if _, err := NewPortMap(tt.ports); !errors.Is(err, ErrProfile) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %q", tt.ports, err, tt.want)
		}
	}
}
