package p4rt

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/fabric"
)

const handMade = "testdata/ethereal.p4info.txtpb"

func readInfo(tb testing.TB) *p4config.P4Info {
	tb.Helper()
	text, err := os.ReadFile(handMade)
	if err != nil {
		tb.Fatal(err)
	}
	info := &p4config.P4Info{}
	if err := prototext.Unmarshal(text, info); err != nil {
		tb.Fatal(err)
	}
	return info
}

func testSchema(tb testing.TB) *Schema {
	tb.Helper()
	s, err := NewSchema(readInfo(tb))
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// someTables returns the tables of every switch of a few fabrics, with failures.
func someTables(tb testing.TB) [][]controller.Entry {
	tb.Helper()
	var out [][]controller.Entry
	for _, spec := range []fabric.Spec{
		{Kind: fabric.KindFatTree, K: 4},
		{Kind: fabric.KindLeafSpine, ToRs: 3, Spines: 4, HostsPerToR: 2},
	} {
		f, err := fabric.New(spec)
		if err != nil {
			tb.Fatal(err)
		}
		c, err := controller.New(controller.Config{
			Fabric: f, CarrierV4: controller.UDPSourcePort, CarrierV6: controller.FlowLabel,
			ECN:              controller.ECN{Kmin: 800_000, Kmax: 3_200_000, Pmax: 0.2, Unit: 256},
			QuenchIntervalUs: controller.NeverQuench, ControlPriority: 7, HashSeed: 0xFFFFFFFF,
		})
		if err != nil {
			tb.Fatal(err)
		}
		for id := f.Hosts() + 1; id < f.Links(); id += 5 {
			end := f.Link(fabric.LinkID(id)).A
			if err := c.PortState(0, end.Node, end.Port, false); err != nil {
				tb.Fatal(err)
			}
		}
		for i := range f.Switches() {
			out = append(out, c.Desired(fabric.NodeID(f.Hosts()+i)))
		}
	}
	return out
}

// TestBuiltP4Info binds to what the compiler printed for the program.
func TestBuiltP4Info(t *testing.T) {
	text, err := os.ReadFile("../../p4src/build/ethereal.p4info.txtpb")
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("p4src/build has no P4Info: make p4 builds it")
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := ParseSchema(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, es := range someTables(t) {
		if _, err := s.WriteRequests(Writer{}, controller.Diff(nil, es)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	s := testSchema(t)
	for _, es := range someTables(t) {
		for _, e := range es {
			ent, err := s.EncodeEntry(e, false)
			if err != nil {
				t.Fatal(err)
			}
			wire, err := proto.Marshal(ent)
			if err != nil {
				t.Fatal(err)
			}
			back := &p4.Entity{}
			if err := proto.Unmarshal(wire, back); err != nil {
				t.Fatal(err)
			}
			got, err := s.Decode(back)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(e, got); diff != "" {
				t.Fatalf("%v (-written +read):\n%s", e, diff)
			}
			key, err := s.EncodeEntry(controller.Entry{Key: e.Key}, true)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := s.Decode(key); err != nil || got.Key != e.Key {
				t.Fatalf("%v: key reads back as %v, %v", e.Key, got.Key, err)
			}
		}
	}
}

// TestEncode holds messages against the specification by eye; the numbers are
// those of the hand-made P4Info.
func TestEncode(t *testing.T) {
	s := testSchema(t)
	for _, tc := range []struct {
		name   string
		update controller.Update
		want   string
	}{
		{
			"default route", controller.Update{Op: controller.Insert, Entry: controller.Entry{
				Key: controller.Key{Table: controller.RouteV4}, Action: controller.ForwardUp,
			}},
			`type: INSERT entity { table_entry { table_id: 33562631 action { action { action_id: 16779530 params { param_id: 1 value: "\000" } } } } }`,
		},
		{
			"prefix", controller.Update{Op: controller.Delete, Entry: controller.Entry{
				Key: controller.Key{Table: controller.RouteV4, PrefixLen: 24, Value: controller.Value{Lo: 0x0a000100}},
			}},
			`type: DELETE entity { table_entry { table_id: 33562631 match { field_id: 1 lpm { value: "\n\000\001\000" prefix_len: 24 } } } }`,
		},
		{
			"weighted group", controller.Update{Op: controller.Modify, Entry: controller.Entry{
				Key: controller.Key{Table: controller.ECMP, Value: controller.Value{Lo: 300}}, Action: controller.TakeUplink,
				Members: []controller.Member{{Port: 3, Weight: 2}, {Port: 4, Weight: 1}},
			}},
			`type: MODIFY entity { table_entry { table_id: 33574928 match { field_id: 1 exact { value: "\001," } } action { action_profile_action_set {
				action_profile_actions { action { action_id: 16778502 params { param_id: 1 value: "\003" } } weight: 2 }
				action_profile_actions { action { action_id: 16778502 params { param_id: 1 value: "\004" } } weight: 1 } } } } }`,
		},
		{
			"clone session", controller.Update{Op: controller.Insert, Entry: controller.Entry{
				Key: controller.Key{Table: controller.CloneSession, Value: controller.Value{Lo: 513}}, Action: controller.CloneTo,
				Args: [6]uint64{1, 128},
			}},
			`type: INSERT entity { packet_replication_engine_entry { clone_session_entry { session_id: 513 replicas { egress_port: 1 instance: 1 } packet_length_bytes: 128 } } }`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := &p4.Update{}
			if err := prototext.Unmarshal([]byte(tc.want), want); err != nil {
				t.Fatal(err)
			}
			got, err := s.Encode(tc.update)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestEncodeErrors(t *testing.T) {
	s := testSchema(t)
	key := func(tb controller.Table, v uint64) controller.Key {
		return controller.Key{Table: tb, Value: controller.Value{Lo: v}}
	}
	for _, tc := range []struct {
		name  string
		op    controller.Op
		entry controller.Entry
		want  string
	}{
		{"key too wide", controller.Insert, controller.Entry{Key: key(controller.ECNProfile, 512), Action: controller.MarkBetween}, "9 bits of port"},
		{"argument too wide", controller.Insert, controller.Entry{Key: key(controller.PortOfUplink, 1), Action: controller.TakeUplink, Args: [6]uint64{512}}, "parameter port: 512 does not fit into 9 bits"},
		{"wrong action", controller.Insert, controller.Entry{Key: key(controller.PortOfUplink, 1), Action: controller.Deliver}, "not one of the table's, [take_uplink]"},
		{"bits beyond prefix", controller.Insert, controller.Entry{Key: controller.Key{Table: controller.RouteV4, PrefixLen: 8, Value: controller.Value{Lo: 0x0a000001}}, Action: controller.Discard}, "beyond its prefix"},
		{"prefix too long", controller.Insert, controller.Entry{Key: controller.Key{Table: controller.RouteV4, PrefixLen: 33}, Action: controller.Discard}, "longer than the 32 bits"},
		{"no priority", controller.Insert, controller.Entry{Key: controller.Key{Table: controller.SourceRoute, Mask: 1}, Action: controller.TakeUplink, Args: [6]uint64{1}}, "above 0"},
		{"empty group", controller.Insert, controller.Entry{Key: key(controller.ECMP, 1), Action: controller.TakeUplink}, "no member"},
		{"group too large", controller.Insert, controller.Entry{Key: key(controller.ECMP, 1), Action: controller.TakeUplink, Members: []controller.Member{{Port: 1, Weight: 65}}}, "the program allows 64"},
		{"delete a default", controller.Delete, controller.Entry{Key: key(controller.Device, 0)}, "can be modified"},
		{"session 0", controller.Insert, controller.Entry{Key: key(controller.CloneSession, 0), Action: controller.CloneTo}, "1 to 2^32-1"},
		{"unknown table", controller.Insert, controller.Entry{Key: key(200, 0)}, "no such table"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := s.Encode(controller.Update{Op: tc.op, Entry: tc.entry})
			if !errors.Is(err, ErrEntry) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an ErrEntry with %q", err, tc.want)
			}
		})
	}
}

func TestSchemaErrors(t *testing.T) {
	table := func(info *p4config.P4Info, name string) *p4config.Table {
		for _, pt := range info.GetTables() {
			if pt.GetPreamble().GetName() == name {
				return pt
			}
		}
		t.Fatalf("no table %s", name)
		return nil
	}
	action := func(info *p4config.P4Info, name string) *p4config.Action {
		for _, a := range info.GetActions() {
			if a.GetPreamble().GetName() == name {
				return a
			}
		}
		t.Fatalf("no action %s", name)
		return nil
	}
	for _, tc := range []struct {
		name   string
		change func(*p4config.P4Info)
		want   string
	}{
		{"table missing", func(i *p4config.P4Info) {
			p := table(i, "source_route").Preamble
			p.Name, p.Alias = "sroute", "sroute"
		}, "table source_route: there is none; there are device, "},
		{"key width", func(i *p4config.P4Info) { table(i, "source_route").MatchFields[0].Bitwidth = 16 }, "label has 16 bits; it must have 14"},
		{"key name", func(i *p4config.P4Info) { table(i, "ecmp").MatchFields[0].Name = "g" }, "is g; it must be group"},
		{"match kind", func(i *p4config.P4Info) {
			table(i, "route_v6").MatchFields[0].Match = &p4config.MatchField_MatchType_{MatchType: p4config.MatchField_EXACT}
		}, "matches EXACT; it must match LPM"},
		{"no selector", func(i *p4config.P4Info) { table(i, "ecmp").ImplementationId = 0 }, "action selector must be true"},
		{"profile without selector", func(i *p4config.P4Info) { i.ActionProfiles[0].WithSelector = false }, "not an action selector"},
		{"action missing", func(i *p4config.P4Info) {
			action(i, "deliver").Preamble.Name, action(i, "deliver").Preamble.Alias = "d", "d"
		}, "action deliver: there is none"},
		{"action not listed", func(i *p4config.P4Info) { table(i, "route_v4").ActionRefs = table(i, "route_v4").ActionRefs[1:] }, "does not list action deliver"},
		{"parameter width", func(i *p4config.P4Info) { action(i, "mark_between").Params[0].Bitwidth = 24 }, "kmin has 24 bits; it must have 19"},
		{"parameter name", func(i *p4config.P4Info) { action(i, "mark_between").Params[0].Name = "k" }, "no parameter kmin"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			info := readInfo(t)
			tc.change(info)
			_, err := NewSchema(info)
			if !errors.Is(err, ErrSchema) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an ErrSchema with %q", err, tc.want)
			}
		})
	}
	if _, err := ParseSchema([]byte("tables {")); !errors.Is(err, ErrSchema) {
		t.Errorf("cut text: %v", err)
	}
}

// TestNameForms binds to names with a leading dot or in a control, by alias.
func TestNameForms(t *testing.T) {
	info := readInfo(t)
	for i, pt := range info.GetTables() {
		pt.Preamble.Name = []string{".", "EtherealIngress."}[i%2] + pt.Preamble.Alias
	}
	if _, err := NewSchema(info); err != nil {
		t.Error(err)
	}
}

func TestDecodeOddities(t *testing.T) {
	s := testSchema(t)
	entity := func(text string) *p4.Entity {
		e := &p4.Entity{}
		if err := prototext.Unmarshal([]byte(text), e); err != nil {
			t.Fatal(err)
		}
		return e
	}
	const uplink3 = `action { action_id: 16778502 params { param_id: 1 value: "\003" } }`
	for _, tc := range []struct {
		name, entity string
		want         string // the entry
		err          error
	}{
		{"leading zeros", `table_entry { table_id: 33574928 match { field_id: 1 exact { value: "\000\000\000\007" } } action { action_profile_action_set { action_profile_actions { ` + uplink3 + ` weight: 1 } } } }`,
			"ecmp 7 -> take_uplink {3}", nil},
		{"equal members", `table_entry { table_id: 33574928 match { field_id: 1 exact { value: "\007" } } action { action_profile_action_set { action_profile_actions { ` + uplink3 + ` weight: 1 } action_profile_actions { ` + uplink3 + ` weight: 1 } } } }`,
			"ecmp 7 -> take_uplink {3*2}", nil},
		{"session port as bytes", `packet_replication_engine_entry { clone_session_entry { session_id: 514 replicas { port: "\000\002" instance: 1 } packet_length_bytes: 128 } }`,
			"clone_session 514 -> clone_to(port=2 truncate=128 class=0)", nil},
		{"too wide", `table_entry { table_id: 33574928 match { field_id: 1 exact { value: "\001\000\000" } } }`, "", ErrEntry},
		{"empty value", `table_entry { table_id: 33574928 match { field_id: 1 exact { } } }`, "", ErrEntry},
		{"group by number", `table_entry { table_id: 33574928 match { field_id: 1 exact { value: "\007" } } action { action_profile_group_id: 1 } }`, "", ErrEntry},
		{"other table", `table_entry { table_id: 33587225 }`, "", ErrForeign},
		{"unknown table", `table_entry { table_id: 1 }`, "", ErrForeign},
		{"group of ports in a row", `packet_replication_engine_entry { multicast_group_entry { multicast_group_id: 1 replicas { port: "\003" instance: 1 } replicas { egress_port: 2 instance: 1 } } }`,
			"multicast_group 1 -> replicate_to(first=2 count=2)", nil},
		{"group of scattered ports", `packet_replication_engine_entry { multicast_group_entry { multicast_group_id: 1 replicas { egress_port: 3 instance: 1 } replicas { egress_port: 1 instance: 1 } } }`, "", ErrEntry},
		{"group with a port twice", `packet_replication_engine_entry { multicast_group_entry { multicast_group_id: 1 replicas { egress_port: 3 instance: 1 } replicas { egress_port: 3 instance: 1 } } }`, "", ErrEntry},
		{"group of another instance", `packet_replication_engine_entry { multicast_group_entry { multicast_group_id: 1 replicas { egress_port: 3 instance: 2 } } }`, "", ErrEntry},
		{"counter", `counter_entry { counter_id: 1 }`, "", ErrForeign},
		{"default of a table with key", `table_entry { table_id: 33574928 is_default_action: true }`, "", ErrForeign},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := s.Decode(entity(tc.entity))
			if !errors.Is(err, tc.err) || tc.err == nil && err != nil {
				t.Fatalf("error %v, want %v", err, tc.err)
			}
			if tc.err == nil && got.String() != tc.want {
				t.Errorf("got %v, want %s", got, tc.want)
			}
		})
	}
}

func TestWriteRequests(t *testing.T) {
	s := testSchema(t)
	for _, es := range someTables(t) {
		us := controller.Diff(nil, es)
		batches, err := s.WriteRequests(Writer{DeviceID: 3, ElectionID: &p4.Uint128{Low: 9}, BatchSize: 10}, us)
		if err != nil {
			t.Fatal(err)
		}
		var all []controller.Update
		for _, b := range batches {
			if len(b.Updates) > 10 || len(b.Updates) != len(b.Request.GetUpdates()) {
				t.Fatalf("a batch of %d updates and %d messages", len(b.Updates), len(b.Request.GetUpdates()))
			}
			if b.Request.GetDeviceId() != 3 || b.Request.GetElectionId().GetLow() != 9 {
				t.Fatalf("request for %v", b.Request)
			}
			for _, u := range b.Updates {
				if u.Phase() != b.Updates[0].Phase() {
					t.Fatalf("%v and %v in one batch", b.Updates[0], u)
				}
			}
			all = append(all, b.Updates...)
		}
		if diff := cmp.Diff(us, all); diff != "" {
			t.Fatalf("(-given +batched):\n%s", diff)
		}
	}
}

// FuzzDecode sees that nothing a switch answers makes the decoder panic, and
// that what it accepts is written back to the same key.
func FuzzDecode(f *testing.F) {
	s := testSchema(f)
	for _, es := range someTables(f)[:1] {
		for _, e := range es {
			ent, err := s.EncodeEntry(e, false)
			if err != nil {
				f.Fatal(err)
			}
			wire, err := proto.Marshal(ent)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(wire)
		}
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		ent := &p4.Entity{}
		if proto.Unmarshal(wire, ent) != nil {
			return
		}
		e, err := s.Decode(ent)
		if err != nil {
			return
		}
		again, err := s.EncodeEntry(e, true)
		if err != nil {
			return // a priority or session number of 0
		}
		if back, err := s.Decode(again); err != nil || back.Key != e.Key {
			t.Fatalf("%v reads back as %v, %v", e.Key, back.Key, err)
		}
	})
}
