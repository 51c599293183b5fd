package p4runtime

import (
	"fmt"
	"testing"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
)

// TestReadFilters reads the entries of oneOfEach and two more through every
// filter that the specification names.
func TestReadFilters(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, d *device) {
		d.ready()
		d.mustWrite(oneOfEach(t)...)
		d.mustWrite(
			insert(t, `table_entry { table_id: $acl priority: 10 match { field_id: 3 optional { value: "\x12\x34" } } action { action { action_id: $deny } } controller_metadata: 7 }`),
			insert(t, `table_entry { table_id: $acl priority: 20 match { field_id: 3 optional { value: "\x12\x34" } } action { action { action_id: $deny } } metadata: "x" }`))
		for _, c := range []struct {
			query string
			want  int
		}{
			{`table_entry {}`, 8}, // mac, route, acl x3, hop and two constant entries
			{`table_entry { table_id: $acl }`, 3},
			{`table_entry { table_id: $acl priority: 10 }`, 2},
			{`table_entry { table_id: $acl priority: 11 }`, 0},
			{`table_entry { table_id: $acl controller_metadata: 7 }`, 1},
			{`table_entry { table_id: $acl metadata: "x" }`, 1},
			{`table_entry { table_id: $acl action { action { action_id: $deny } } }`, 2},
			{`table_entry { table_id: $acl priority: 20 match { field_id: 3 optional { value: "\x12\x34" } } }`, 1},
			{`table_entry { table_id: $acl match { field_id: 3 optional { value: "\x12\x34" } } }`, 2},
			{`table_entry { table_id: $acl priority: 20 match { field_id: 3 optional { value: "\x12\x35" } } }`, 0},
			{`table_entry { table_id: $fixed }`, 2},
			{`table_entry { table_id: $extra }`, 0},
			{`table_entry { is_default_action: true }`, 7},
			{`table_entry { table_id: $extra is_default_action: true }`, 1},
			{`action_profile_member {}`, 1},
			{`action_profile_member { action_profile_id: $hops }`, 1},
			{`action_profile_member { action_profile_id: $ecmp }`, 0},
			{`action_profile_member { action_profile_id: $hops member_id: 3 }`, 1},
			{`action_profile_group {}`, 0},
			{`counter_entry {}`, 512},
			{`counter_entry { counter_id: $port_packets }`, 512},
			{`counter_entry { counter_id: $port_packets index { index: 7 } }`, 1},
			{`counter_entry { counter_id: $port_packets index {} }`, 1},
			{`meter_entry {}`, 512},
			{`register_entry {}`, 20},
			{`register_entry { register_id: $narrow }`, 4},
			{`direct_counter_entry { table_entry {} }`, 1},
			{`direct_counter_entry { table_entry { table_id: $mac } }`, 1},
			{`direct_meter_entry { table_entry { table_id: $acl } }`, 3},
			{`value_set_entry {}`, 1},
			{`digest_entry {}`, 1},
			{`digest_entry { digest_id: $learn_t }`, 1},
			{`packet_replication_engine_entry { multicast_group_entry {} }`, 1},
			{`packet_replication_engine_entry { clone_session_entry { session_id: 4 } }`, 1},
			{`extern_entry {}`, 0},
		} {
			t.Run(c.query, func(t *testing.T) {
				if got := d.mustRead(c.query); len(got) != c.want {
					t.Errorf("%d entities, want %d: %v", len(got), c.want, got)
				}
			})
		}
	})
}

func TestReadErrors(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, d *device) {
		d.ready()
		d.mustWrite(insert(t, macEntry))
		for _, c := range []struct {
			query string
			want  codes.Code
		}{
			{``, codes.InvalidArgument},
			{`extern_entry { extern_type_id: 1 }`, codes.Unimplemented},
			{`table_entry { table_id: 9 }`, codes.InvalidArgument},
			{`table_entry { table_id: $mac match { field_id: 9 exact { value: "\x01" } } }`, codes.InvalidArgument},
			{`table_entry { table_id: $mac meter_counter_data {} }`, codes.Unimplemented},
			{`table_entry { is_default_action: true priority: 1 }`, codes.InvalidArgument},
			{`action_profile_member { member_id: 1 }`, codes.InvalidArgument},
			{`action_profile_member { action_profile_id: $hops member_id: 1 }`, codes.NotFound},
			{`action_profile_group { action_profile_id: $ecmp group_id: 1 }`, codes.NotFound},
			{`action_profile_group { action_profile_id: 1 }`, codes.InvalidArgument},
			{`counter_entry { counter_id: 1 }`, codes.InvalidArgument},
			{`counter_entry { index {} }`, codes.InvalidArgument},
			{`counter_entry { counter_id: $port_packets index { index: -1 } }`, codes.InvalidArgument},
			{`counter_entry { counter_id: $port_packets index { index: 512 } }`, codes.OutOfRange},
			{`meter_entry { meter_id: $port_limits index { index: 512 } }`, codes.OutOfRange},
			{`meter_entry { meter_id: $port_limits counter_data {} }`, codes.Unimplemented},
			{`register_entry { register_id: $scratch index { index: 16 } }`, codes.OutOfRange},
			{`direct_counter_entry { table_entry { table_id: $mac match { field_id: 1 exact { value: "\x01" } } } }`, codes.NotFound},
			{`direct_counter_entry { table_entry { table_id: $acl } }`, codes.InvalidArgument},
			{`direct_meter_entry { table_entry { table_id: $mac } }`, codes.InvalidArgument},
			{`value_set_entry { value_set_id: 1 }`, codes.InvalidArgument},
			{`digest_entry { digest_id: 1 }`, codes.InvalidArgument},
			{`packet_replication_engine_entry {}`, codes.InvalidArgument},
			{`packet_replication_engine_entry { multicast_group_entry { multicast_group_id: 1 } }`, codes.NotFound},
			{`packet_replication_engine_entry { clone_session_entry { session_id: 1 } }`, codes.NotFound},
		} {
			t.Run(c.query, func(t *testing.T) {
				// The good request beside it is answered.
				got, err := d.read(&p4.ReadRequest{DeviceId: testDevice, Entities: []*p4.Entity{
					entity(t, `table_entry { table_id: $mac }`), entity(t, c.query), entity(t, `table_entry { table_id: $mac }`)}})
				wantCodes(t, err, codes.OK, c.want, codes.OK)
				if len(got) != 2 {
					t.Errorf("%d entities beside the error, want 2", len(got))
				}
			})
		}
		_, err := d.read(&p4.ReadRequest{DeviceId: 1})
		wantCode(t, err, codes.NotFound)
	})
}

// Large answers come in parts that a client with gRPC's default limits takes.
func TestReadIsSplit(t *testing.T) {
	d := newDevice(t, nil)
	d.ready()
	for i := range 150 {
		u := insert(t, `packet_replication_engine_entry { multicast_group_entry { multicast_group_id: 1 } }`)
		g := u.GetEntity().GetPacketReplicationEngineEntry().GetMulticastGroupEntry()
		g.MulticastGroupId, g.Metadata = uint32(i+1), make([]byte, 4096)
		d.mustWrite(u)
	}
	var sizes []int
	err := d.core.Read(&p4.ReadRequest{DeviceId: testDevice, Entities: []*p4.Entity{entity(t, `packet_replication_engine_entry { multicast_group_entry {} }`), entity(t, `counter_entry {}`)}},
		func(r *p4.ReadResponse) error {
			sizes = append(sizes, len(r.GetEntities()))
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(sizes) != "[63 63 512 24]" {
		t.Errorf("parts of %v entities", sizes)
	}
}

func TestRoles(t *testing.T) {
	annotated := func(c *Config) {}
	onBoth(t, annotated, func(t *testing.T, d *device) {
		d.primary()
		cfg := config(t)
		// Table mac belongs to role "edge", route to role "core".
		for _, x := range cfg.GetP4Info().GetTables() {
			switch x.GetPreamble().GetAlias() {
			case "mac":
				x.Preamble.Annotations = append(x.Preamble.Annotations, `@p4runtime_role("edge")`)
			case "route":
				x.Preamble.Annotations = append(x.Preamble.Annotations, `@p4runtime_role("core")`)
			}
		}
		if err := d.setPipeline(push(saveAndGo, cfg)); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"edge", "core"} {
			s := d.open()
			s.send(arbitration(testDevice, name, id(1)))
			wants(t, name, s.received(), codes.OK)
		}
		as := func(role string, u *p4.Update) error {
			return d.write(&p4.WriteRequest{DeviceId: testDevice, Role: role, ElectionId: id(1), Updates: []*p4.Update{u}})
		}
		wantCodes(t, as("core", insert(t, macEntry)), codes.PermissionDenied)
		wantCode(t, as("edge", insert(t, macEntry)), codes.OK)
		wantCode(t, as("core", insert(t, route(2))), codes.OK)
		wantCodes(t, as("edge", remove(t, route(2))), codes.PermissionDenied)
		for _, c := range []struct {
			role string
			want int
		}{{"", 4}, {"edge", 3}, {"core", 3}} { // two entries are nobody's
			got, err := d.read(&p4.ReadRequest{DeviceId: testDevice, Role: c.role, Entities: []*p4.Entity{entity(t, `table_entry {}`)}})
			if err != nil || len(got) != c.want {
				t.Errorf("role %q reads %d entries, want %d (%v)", c.role, len(got), c.want, err)
			}
		}
		// The default role has the whole pipeline.
		d.mustWrite(remove(t, macEntry), remove(t, route(2)))
	})
}
