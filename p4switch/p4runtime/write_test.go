package p4runtime

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
)

// oneOfEach is one entity of every kind, written as it is read back.
func oneOfEach(t testing.TB) []*p4.Update {
	t.Helper()
	return []*p4.Update{
		insert(t, macEntry),
		insert(t, `table_entry { table_id: $route match { field_id: 1 lpm { value: "\x0a\x00\x01\x00" prefix_len: 24 } } metadata: "r" controller_metadata: 5
			action { action_profile_action_set {
				action_profile_actions { action { action_id: $forward params { param_id: 1 value: "\x01" } } weight: 1 watch_port: "\x01" }
				action_profile_actions { action { action_id: $forward params { param_id: 1 value: "\x02" } } weight: 2 watch_port: "\x02" } } } }`),
		insert(t, `table_entry { table_id: $acl priority: 10
			match { field_id: 1 ternary { value: "\x08" mask: "\xff" } } match { field_id: 2 range { low: "\x03" high: "\x04" } } match { field_id: 3 optional { value: "\x12\x34" } }
			action { action { action_id: $pass } } meter_config { cir: 10 cburst: 1 pir: 20 pburst: 2 } }`),
		insert(t, `action_profile_member { action_profile_id: $hops member_id: 3 action { action_id: $tag params { param_id: 1 value: "\x43\x21" } } }`),
		insert(t, `table_entry { table_id: $hop match { field_id: 1 exact { value: "\x01" } } match { field_id: 2 exact { value: "\x12\x34" } } action { action_profile_member_id: 3 } }`),
		modify(t, `table_entry { table_id: $smac is_default_action: true action { action { action_id: $learn } } metadata: "d" }`),
		modify(t, `counter_entry { counter_id: $port_packets index { index: 7 } data { byte_count: 100 packet_count: 3 } }`),
		modify(t, `meter_entry { meter_id: $port_limits index { index: 2 } config { cir: 1000 cburst: 100 pir: 2000 pburst: 200 } }`),
		modify(t, `register_entry { register_id: $scratch index { index: 5 } data { bitstring: "\xde\xad\xbe\xef" } }`),
		modify(t, `register_entry { register_id: $narrow index { index: 1 } data { bitstring: "\x0f\xff" } }`),
		modify(t, `value_set_entry { value_set_id: $trusted_types members { match { field_id: 1 exact { value: "\x12\x34" } } } members { match { field_id: 1 exact { value: "\x56" } } } }`),
		insert(t, `digest_entry { digest_id: $learn_t config { max_timeout_ns: 1000 max_list_size: 2 ack_timeout_ns: 5000 } }`),
		insert(t, `packet_replication_engine_entry { multicast_group_entry { multicast_group_id: 9 replicas { port: "\x01" instance: 1 } replicas { port: "\x02" instance: 2 } metadata: "m" } }`),
		insert(t, `packet_replication_engine_entry { clone_session_entry { session_id: 4 replicas { egress_port: 3 instance: 1 } packet_length_bytes: 60 } }`),
	}
}

// What is written is what is read, for every kind of entity.
func TestReadWriteSymmetry(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, d *device) {
		d.ready()
		updates := oneOfEach(t)
		d.mustWrite(updates...)
		for _, u := range updates {
			want := u.GetEntity()
			q := want
			if e := want.GetTableEntry(); e.GetMeterConfig() != nil {
				q = entity(t, `table_entry { table_id: $acl priority: 10 meter_config {} }`)
			}
			got, err := d.read(&p4.ReadRequest{DeviceId: testDevice, Entities: []*p4.Entity{q}})
			if err != nil {
				t.Errorf("%v: %v", want, err)
				continue
			}
			if diff := sameEntities([]*p4.Entity{want}, got); diff != "" {
				t.Errorf("%T: %s", want.GetEntity(), diff)
			}
		}
	})
}

// Byte strings come back in their shortest form, whatever was sent.
func TestCanonicalByteStrings(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, d *device) {
		d.ready()
		d.mustWrite(
			insert(t, `table_entry { table_id: $mac match { field_id: 1 exact { value: "\x00\x00\x00\x00\x00\x09" } } action { action { action_id: $count_forward params { param_id: 1 value: "\x00\x02" } } } }`),
			insert(t, `table_entry { table_id: $acl priority: 1
				match { field_id: 1 ternary { value: "\x00\x00" mask: "\x00\x00\xf0" } } match { field_id: 2 range { low: "\x00\x00" high: "\x00\x04" } } match { field_id: 3 optional { value: "\x00\x04" } } action { action { action_id: $deny } } }`),
			insert(t, `table_entry { table_id: $route match { field_id: 1 lpm { value: "\x00\x0a\x00\x00\x00" prefix_len: 8 } }
				action { action_profile_action_set { action_profile_actions { action { action_id: $forward params { param_id: 1 value: "\x00\x01" } } weight: 1 watch_port: "\x00\x00\x01" } } } }`),
			insert(t, `packet_replication_engine_entry { multicast_group_entry { multicast_group_id: 9 replicas { port: "\x00\x01" instance: 1 } } }`),
		)
		want := []*p4.Entity{
			entity(t, macEntry),
			entity(t, `table_entry { table_id: $acl priority: 1
				match { field_id: 1 ternary { value: "\x00" mask: "\xf0" } } match { field_id: 2 range { low: "\x00" high: "\x04" } } match { field_id: 3 optional { value: "\x04" } } action { action { action_id: $deny } } }`),
			entity(t, `table_entry { table_id: $route match { field_id: 1 lpm { value: "\x0a\x00\x00\x00" prefix_len: 8 } }
				action { action_profile_action_set { action_profile_actions { action { action_id: $forward params { param_id: 1 value: "\x01" } } weight: 1 watch_port: "\x01" } } } }`),
			entity(t, `packet_replication_engine_entry { multicast_group_entry { multicast_group_id: 9 replicas { port: "\x01" instance: 1 } } }`),
		}
		got := d.mustRead(`table_entry { table_id: $mac }`, `table_entry { table_id: $acl }`, `table_entry { table_id: $route }`,
			`packet_replication_engine_entry { multicast_group_entry {} }`)
		if diff := sameEntities(want, got); diff != "" {
			t.Error(diff)
		}
		// The same key, written differently, is the same entry.
		wantCodes(t, d.write(batch(insert(t, macEntry))), codes.AlreadyExists)
	})
}

// wantCodes checks the codes of a batch's p4.Errors.
func wantCodes(t *testing.T, err error, want ...codes.Code) {
	t.Helper()
	wantCode(t, err, codes.Unknown)
	if diff := cmp.Diff(want, errorCodes(err)); diff != "" {
		t.Errorf("%v: %s", err, diff)
	}
}

const (
	macKey  = `match { field_id: 1 exact { value: "\x01" } }`
	fwd     = `action { action { action_id: $count_forward params { param_id: 1 value: "\x01" } } }`
	aclKey  = `priority: 1 match { field_id: 1 ternary { value: "\x01" mask: "\xff" } }`
	deny    = `action { action { action_id: $deny } }`
	oneShot = `action { action_profile_action_set { action_profile_actions { action { action_id: $forward params { param_id: 1 value: "\x01" } } weight: 1 } } }`
	lpmKey  = `match { field_id: 1 lpm { value: "\x0a\x00\x00\x00" prefix_len: 8 } }`
)

func TestWriteErrors(t *testing.T) {
	const (
		ins = p4.Update_INSERT
		mod = p4.Update_MODIFY
		del = p4.Update_DELETE
	)
	for _, c := range []struct {
		name string
		typ  p4.Update_Type
		text string
		want codes.Code
	}{
		{"no type", 0, macEntry, codes.InvalidArgument},
		{"no entity", ins, ``, codes.InvalidArgument},
		{"extern", ins, `extern_entry { extern_type_id: 1 }`, codes.Unimplemented},

		{"table id 0", ins, `table_entry { ` + macKey + fwd + ` }`, codes.InvalidArgument},
		{"table id unknown", ins, `table_entry { table_id: 99 ` + macKey + fwd + ` }`, codes.InvalidArgument},
		{"no action", ins, `table_entry { table_id: $mac ` + macKey + ` }`, codes.InvalidArgument},
		{"no match", ins, `table_entry { table_id: $mac ` + fwd + ` }`, codes.InvalidArgument},
		{"field id unknown", ins, `table_entry { table_id: $mac match { field_id: 2 exact { value: "\x01" } } ` + fwd + ` }`, codes.InvalidArgument},
		{"field twice", ins, `table_entry { table_id: $mac ` + macKey + macKey + fwd + ` }`, codes.InvalidArgument},
		{"wrong match kind", ins, `table_entry { table_id: $mac match { field_id: 1 optional { value: "\x01" } } ` + fwd + ` }`, codes.InvalidArgument},
		{"field without match", ins, `table_entry { table_id: $mac match { field_id: 1 } ` + fwd + ` }`, codes.InvalidArgument},
		{"empty value", ins, `table_entry { table_id: $mac match { field_id: 1 exact { } } ` + fwd + ` }`, codes.InvalidArgument},
		{"value too wide", ins, `table_entry { table_id: $mac match { field_id: 1 exact { value: "\x01\x00\x00\x00\x00\x00\x00" } } ` + fwd + ` }`, codes.InvalidArgument},
		{"priority where there is none", ins, `table_entry { table_id: $mac priority: 1 ` + macKey + fwd + ` }`, codes.InvalidArgument},
		{"is_const", ins, `table_entry { table_id: $mac is_const: true ` + macKey + fwd + ` }`, codes.InvalidArgument},
		{"time_since_last_hit", ins, `table_entry { table_id: $mac time_since_last_hit {} ` + macKey + fwd + ` }`, codes.InvalidArgument},
		{"negative idle timeout", ins, `table_entry { table_id: $mac idle_timeout_ns: -1 ` + macKey + fwd + ` }`, codes.InvalidArgument},
		{"idle timeout where there is none", ins, `table_entry { table_id: $acl idle_timeout_ns: 1 ` + aclKey + deny + ` }`, codes.InvalidArgument},

		{"action unknown", ins, `table_entry { table_id: $mac ` + macKey + ` action { action { action_id: 99 } } }`, codes.InvalidArgument},
		{"another table's action", ins, `table_entry { table_id: $mac ` + macKey + ` action { action { action_id: $deny } } }`, codes.InvalidArgument},
		{"parameter missing", ins, `table_entry { table_id: $mac ` + macKey + ` action { action { action_id: $count_forward } } }`, codes.InvalidArgument},
		{"parameter unknown", ins, `table_entry { table_id: $mac ` + macKey + ` action { action { action_id: $count_drop params { param_id: 1 value: "\x01" } } } }`, codes.InvalidArgument},
		{"parameter twice", ins, `table_entry { table_id: $mac ` + macKey + ` action { action { action_id: $count_forward params { param_id: 1 value: "\x01" } params { param_id: 1 value: "\x01" } } } }`, codes.InvalidArgument},
		{"parameter too wide", ins, `table_entry { table_id: $mac ` + macKey + ` action { action { action_id: $count_forward params { param_id: 1 value: "\x02\x00" } } } }`, codes.InvalidArgument},
		{"parameter empty", ins, `table_entry { table_id: $mac ` + macKey + ` action { action { action_id: $count_forward params { param_id: 1 } } } }`, codes.InvalidArgument},
		{"default-only action", ins, `table_entry { table_id: $acl ` + aclKey + ` action { action { action_id: $NoAction } } }`, codes.PermissionDenied},
		{"table-only action as default", mod, `table_entry { table_id: $acl is_default_action: true action { action { action_id: $pass } } }`, codes.PermissionDenied},
		{"member for direct actions", ins, `table_entry { table_id: $mac ` + macKey + ` action { action_profile_member_id: 1 } }`, codes.InvalidArgument},
		{"action for a profile", ins, `table_entry { table_id: $route ` + lpmKey + ` action { action { action_id: $drop } } }`, codes.InvalidArgument},
		{"no such member", ins, `table_entry { table_id: $route ` + lpmKey + ` action { action_profile_member_id: 9 } }`, codes.NotFound},
		{"no such group", ins, `table_entry { table_id: $route ` + lpmKey + ` action { action_profile_group_id: 9 } }`, codes.NotFound},
		{"group without selector", ins, `table_entry { table_id: $hop match { field_id: 1 exact { value: "\x01" } } match { field_id: 2 exact { value: "\x01" } } action { action_profile_group_id: 9 } }`, codes.NotFound},
		{"one-shot without selector", ins, `table_entry { table_id: $hop match { field_id: 1 exact { value: "\x01" } } match { field_id: 2 exact { value: "\x01" } } action { action_profile_action_set {} } }`, codes.InvalidArgument},
		{"one-shot weight 0", ins, `table_entry { table_id: $route ` + lpmKey + ` action { action_profile_action_set { action_profile_actions { action { action_id: $drop } } } } }`, codes.InvalidArgument},
		{"one-shot weight negative", ins, `table_entry { table_id: $route ` + lpmKey + ` action { action_profile_action_set { action_profile_actions { action { action_id: $drop } weight: -1 } } } }`, codes.InvalidArgument},
		{"one-shot weight huge", ins, `table_entry { table_id: $route ` + lpmKey + ` action { action_profile_action_set { action_profile_actions { action { action_id: $drop } weight: 2000000000 } } } }`, codes.ResourceExhausted},
		{"one-shot without action", ins, `table_entry { table_id: $route ` + lpmKey + ` action { action_profile_action_set { action_profile_actions { weight: 1 } } } }`, codes.InvalidArgument},
		{"one-shot watching no port", ins, `table_entry { table_id: $route ` + lpmKey + ` action { action_profile_action_set { action_profile_actions { action { action_id: $drop } weight: 1 watch_port: "\x63" } } } }`, codes.InvalidArgument},
		{"one-shot random", ins, `table_entry { table_id: $route ` + lpmKey + ` action { action_profile_action_set { action_selection_mode: RANDOM } } }`, codes.Unimplemented},

		{"LPM of length 0", ins, `table_entry { table_id: $route match { field_id: 1 lpm { value: "\x00" } } ` + oneShot + ` }`, codes.InvalidArgument},
		{"LPM too long", ins, `table_entry { table_id: $route match { field_id: 1 lpm { value: "\x00" prefix_len: 33 } } ` + oneShot + ` }`, codes.InvalidArgument},
		{"LPM with host bits", ins, `table_entry { table_id: $route match { field_id: 1 lpm { value: "\x0a\x00\x00\x01" prefix_len: 8 } } ` + oneShot + ` }`, codes.InvalidArgument},
		{"ternary mask 0", ins, `table_entry { table_id: $acl priority: 1 match { field_id: 1 ternary { value: "\x00" mask: "\x00" } } ` + deny + ` }`, codes.InvalidArgument},
		{"ternary value outside mask", ins, `table_entry { table_id: $acl priority: 1 match { field_id: 1 ternary { value: "\x01" mask: "\xf0" } } ` + deny + ` }`, codes.InvalidArgument},
		{"range upside down", ins, `table_entry { table_id: $acl priority: 1 match { field_id: 2 range { low: "\x02" high: "\x01" } } ` + deny + ` }`, codes.InvalidArgument},
		{"range of everything", ins, `table_entry { table_id: $acl priority: 1 match { field_id: 2 range { low: "\x00" high: "\x01\xff" } } ` + deny + ` }`, codes.InvalidArgument},
		{"priority missing", ins, `table_entry { table_id: $acl match { field_id: 1 ternary { value: "\x01" mask: "\xff" } } ` + deny + ` }`, codes.InvalidArgument},
		{"priority negative", ins, `table_entry { table_id: $acl priority: -1 ` + deny + ` }`, codes.InvalidArgument},

		{"modify what is not there", mod, `table_entry { table_id: $mac ` + macKey + fwd + ` }`, codes.NotFound},
		{"delete what is not there", del, `table_entry { table_id: $mac ` + macKey + ` }`, codes.NotFound},
		{"insert into a constant table", ins, `table_entry { table_id: $fixed priority: 1 match { field_id: 1 ternary { value: "\x01" mask: "\xff" } } action { action { action_id: $tag params { param_id: 1 value: "\x01" } } } }`, codes.PermissionDenied},
		{"modify a constant entry", mod, `table_entry { table_id: $fixed priority: 2 match { field_id: 1 ternary { value: "\x88\xb5" mask: "\xff\xff" } } action { action { action_id: $NoAction } } }`, codes.PermissionDenied},
		{"delete from a constant table", del, `table_entry { table_id: $fixed priority: 2 match { field_id: 1 ternary { value: "\x88\xb5" mask: "\xff\xff" } } }`, codes.PermissionDenied},
		{"insert into a keyless table", ins, `table_entry { table_id: $extra action { action { action_id: $NoAction } } }`, codes.InvalidArgument},
		{"insert a default", ins, `table_entry { table_id: $mac is_default_action: true ` + fwd + ` }`, codes.InvalidArgument},
		{"delete a default", del, `table_entry { table_id: $mac is_default_action: true }`, codes.InvalidArgument},
		{"default with match", mod, `table_entry { table_id: $mac is_default_action: true ` + macKey + fwd + ` }`, codes.InvalidArgument},
		{"default with priority", mod, `table_entry { table_id: $acl is_default_action: true priority: 1 ` + deny + ` }`, codes.InvalidArgument},
		{"default with idle timeout", mod, `table_entry { table_id: $mac is_default_action: true idle_timeout_ns: 1 ` + fwd + ` }`, codes.InvalidArgument},
		{"constant default", mod, `table_entry { table_id: $fixed is_default_action: true action { action { action_id: $NoAction } } }`, codes.PermissionDenied},
		{"default of a table with a profile", mod, `table_entry { table_id: $route is_default_action: true action { action { action_id: $drop } } }`, codes.PermissionDenied},

		{"counter where there is none", ins, `table_entry { table_id: $acl ` + aclKey + deny + ` counter_data {} }`, codes.InvalidArgument},
		{"negative count", ins, `table_entry { table_id: $mac ` + macKey + fwd + ` counter_data { byte_count: -1 } }`, codes.InvalidArgument},
		{"meter where there is none", ins, `table_entry { table_id: $mac ` + macKey + fwd + ` meter_config {} }`, codes.InvalidArgument},
		{"meter with pir below cir", ins, `table_entry { table_id: $acl ` + aclKey + deny + ` meter_config { cir: 2 pir: 1 } }`, codes.InvalidArgument},
		{"meter with eburst", ins, `table_entry { table_id: $acl ` + aclKey + deny + ` meter_config { eburst: 1 } }`, codes.InvalidArgument},
		{"meter counters", ins, `table_entry { table_id: $acl ` + aclKey + deny + ` meter_counter_data {} }`, codes.Unimplemented},

		{"insert a direct counter", ins, `direct_counter_entry { table_entry { table_id: $mac ` + macKey + ` } }`, codes.InvalidArgument},
		{"direct counter without entry", mod, `direct_counter_entry { }`, codes.InvalidArgument},
		{"direct counter of no entry", mod, `direct_counter_entry { table_entry { table_id: $mac ` + macKey + ` } data {} }`, codes.NotFound},
		{"insert a direct meter", ins, `direct_meter_entry { table_entry { table_id: $acl ` + aclKey + ` } }`, codes.InvalidArgument},
		{"direct meter of no entry", mod, `direct_meter_entry { table_entry { table_id: $acl ` + aclKey + ` } }`, codes.NotFound},

		{"insert a counter", ins, `counter_entry { counter_id: $port_packets index {} }`, codes.InvalidArgument},
		{"delete a counter", del, `counter_entry { counter_id: $port_packets index {} }`, codes.InvalidArgument},
		{"counter unknown", mod, `counter_entry { counter_id: 9 index {} }`, codes.InvalidArgument},
		{"counter index negative", mod, `counter_entry { counter_id: $port_packets index { index: -1 } }`, codes.InvalidArgument},
		{"counter index too large", mod, `counter_entry { counter_id: $port_packets index { index: 512 } }`, codes.OutOfRange},
		{"insert a meter", ins, `meter_entry { meter_id: $port_limits index {} }`, codes.InvalidArgument},
		{"meter index negative", mod, `meter_entry { meter_id: $port_limits index { index: -1 } }`, codes.InvalidArgument},
		{"meter index too large", mod, `meter_entry { meter_id: $port_limits index { index: 512 } }`, codes.OutOfRange},
		{"meter rates negative", mod, `meter_entry { meter_id: $port_limits index {} config { cir: -1 } }`, codes.InvalidArgument},
		{"insert a register", ins, `register_entry { register_id: $scratch index {} data { bitstring: "\x01" } }`, codes.InvalidArgument},
		{"register index negative", mod, `register_entry { register_id: $scratch index { index: -1 } data { bitstring: "\x01" } }`, codes.InvalidArgument},
		{"register index too large", mod, `register_entry { register_id: $scratch index { index: 16 } data { bitstring: "\x01" } }`, codes.OutOfRange},
		{"register data missing", mod, `register_entry { register_id: $scratch index {} }`, codes.InvalidArgument},
		{"register data of another type", mod, `register_entry { register_id: $scratch index {} data { bool: true } }`, codes.InvalidArgument},
		{"register data too wide", mod, `register_entry { register_id: $narrow index {} data { bitstring: "\x10\x00" } }`, codes.InvalidArgument},

		{"insert a value set", ins, `value_set_entry { value_set_id: $trusted_types }`, codes.InvalidArgument},
		{"value set unknown", mod, `value_set_entry { value_set_id: 9 }`, codes.InvalidArgument},
		{"value set full", mod, `value_set_entry { value_set_id: $trusted_types members {} members {} members {} members {} members {} }`, codes.ResourceExhausted},
		{"value set member empty", mod, `value_set_entry { value_set_id: $trusted_types members {} }`, codes.InvalidArgument},
		{"value set member twice", mod, `value_set_entry { value_set_id: $trusted_types members { match { field_id: 1 exact { value: "\x01" } } } members { match { field_id: 1 exact { value: "\x00\x01" } } } }`, codes.AlreadyExists},

		{"member id 0", ins, `action_profile_member { action_profile_id: $ecmp action { action_id: $drop } }`, codes.InvalidArgument},
		{"profile unknown", ins, `action_profile_member { action_profile_id: 9 member_id: 1 action { action_id: $drop } }`, codes.InvalidArgument},
		{"member without action", ins, `action_profile_member { action_profile_id: $ecmp member_id: 1 }`, codes.InvalidArgument},
		{"member modified before it is there", mod, `action_profile_member { action_profile_id: $ecmp member_id: 1 action { action_id: $drop } }`, codes.NotFound},
		{"member deleted before it is there", del, `action_profile_member { action_profile_id: $ecmp member_id: 1 }`, codes.NotFound},
		{"group of no selector", ins, `action_profile_group { action_profile_id: $hops group_id: 1 }`, codes.InvalidArgument},
		{"group id 0", ins, `action_profile_group { action_profile_id: $ecmp }`, codes.InvalidArgument},
		{"group of no member", ins, `action_profile_group { action_profile_id: $ecmp group_id: 1 members { member_id: 1 weight: 1 } }`, codes.NotFound},
		{"group modified before it is there", mod, `action_profile_group { action_profile_id: $ecmp group_id: 1 }`, codes.NotFound},
		{"group deleted before it is there", del, `action_profile_group { action_profile_id: $ecmp group_id: 1 }`, codes.NotFound},
		{"group max_size negative", ins, `action_profile_group { action_profile_id: $ecmp group_id: 1 max_size: -1 }`, codes.InvalidArgument},

		{"replication of nothing", ins, `packet_replication_engine_entry {}`, codes.InvalidArgument},
		{"multicast group 0", ins, `packet_replication_engine_entry { multicast_group_entry {} }`, codes.InvalidArgument},
		{"multicast group not there", mod, `packet_replication_engine_entry { multicast_group_entry { multicast_group_id: 1 } }`, codes.NotFound},
		{"multicast group to delete not there", del, `packet_replication_engine_entry { multicast_group_entry { multicast_group_id: 1 } }`, codes.NotFound},
		{"replica without port", ins, `packet_replication_engine_entry { multicast_group_entry { multicast_group_id: 1 replicas { instance: 1 } } }`, codes.InvalidArgument},
		{"replica twice", ins, `packet_replication_engine_entry { multicast_group_entry { multicast_group_id: 1 replicas { port: "\x01" instance: 1 } replicas { egress_port: 1 instance: 1 } } }`, codes.InvalidArgument},
		{"replica instance too large", ins, `packet_replication_engine_entry { multicast_group_entry { multicast_group_id: 1 replicas { port: "\x01" instance: 65536 } } }`, codes.InvalidArgument},
		{"backup of the same port", ins, `packet_replication_engine_entry { multicast_group_entry { multicast_group_id: 1 replicas { port: "\x01" instance: 1 backup_replicas { port: "\x01" instance: 2 } } } }`, codes.InvalidArgument},
		{"clone session 0", ins, `packet_replication_engine_entry { clone_session_entry {} }`, codes.InvalidArgument},
		{"clone session too large", ins, `packet_replication_engine_entry { clone_session_entry { session_id: 32768 } }`, codes.InvalidArgument},
		{"clone session not there", del, `packet_replication_engine_entry { clone_session_entry { session_id: 1 } }`, codes.NotFound},
		{"clone session length negative", ins, `packet_replication_engine_entry { clone_session_entry { session_id: 1 packet_length_bytes: -1 } }`, codes.InvalidArgument},
		{"clone session class", ins, `packet_replication_engine_entry { clone_session_entry { session_id: 1 class_of_service: 256 } }`, codes.InvalidArgument},

		{"digest unknown", ins, `digest_entry { digest_id: 9 }`, codes.InvalidArgument},
		{"digest modified before it is there", mod, `digest_entry { digest_id: $learn_t }`, codes.NotFound},
		{"digest timeout negative", ins, `digest_entry { digest_id: $learn_t config { max_timeout_ns: -1 } }`, codes.InvalidArgument},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDevice(t, nil)
			d.ready()
			before := d.mustRead(everyEntity...)
			// The batch goes on after the error.
			err := d.write(batch(&p4.Update{Type: c.typ, Entity: entity(t, c.text)},
				modify(t, `counter_entry { counter_id: $port_packets index {} data { packet_count: 1 } }`)))
			wantCodes(t, err, c.want, codes.OK)
			d.mustWrite(modify(t, `counter_entry { counter_id: $port_packets index {} data { packet_count: 0 } }`))
			if diff := sameEntities(before, d.mustRead(everyEntity...)); diff != "" {
				t.Errorf("the refused update left something: %s", diff)
			}
		})
	}
}

func TestWriteRequestErrors(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, d *device) {
		d.ready()
		ok := insert(t, macEntry)
		for _, c := range []struct {
			name string
			req  *p4.WriteRequest
			want codes.Code
		}{
			{"wrong device", &p4.WriteRequest{DeviceId: 1, ElectionId: &p4.Uint128{Low: 1}, Updates: []*p4.Update{ok}}, codes.NotFound},
			{"wrong role", &p4.WriteRequest{DeviceId: testDevice, Role: "x", ElectionId: &p4.Uint128{Low: 1}, Updates: []*p4.Update{ok}}, codes.NotFound},
			{"wrong election id", &p4.WriteRequest{DeviceId: testDevice, ElectionId: &p4.Uint128{High: 1}, Updates: []*p4.Update{ok}}, codes.PermissionDenied},
			{"no election id", &p4.WriteRequest{DeviceId: testDevice, Updates: []*p4.Update{ok}}, codes.PermissionDenied},
			{"atomicity", &p4.WriteRequest{DeviceId: testDevice, ElectionId: &p4.Uint128{Low: 1}, Atomicity: 9}, codes.InvalidArgument},
		} {
			err := d.write(c.req)
			t.Run(c.name, func(t *testing.T) {
				wantCode(t, err, c.want)
				if got := errorCodes(err); got != nil {
					t.Errorf("details %v for an error of the whole request", got)
				}
			})
		}
	})
}

func TestTableFull(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, d *device) {
		d.ready()
		var req []*p4.Update
		want := make([]codes.Code, 9)
		for i := range 9 {
			u := insert(t, macEntry)
			u.GetEntity().GetTableEntry().GetMatch()[0].GetExact().Value = []byte{byte(i)}
			req = append(req, u)
		}
		want[8] = codes.ResourceExhausted // the table's size is 8
		wantCodes(t, d.write(batch(req...)), want...)
	})
}

// A failed batch leaves nothing behind under ROLLBACK_ON_ERROR and
// DATAPLANE_ATOMIC.
func TestRollback(t *testing.T) {
	for _, atomicity := range []p4.WriteRequest_Atomicity{p4.WriteRequest_ROLLBACK_ON_ERROR, p4.WriteRequest_DATAPLANE_ATOMIC} {
		t.Run(atomicity.String(), func(t *testing.T) {
			onBoth(t, nil, func(t *testing.T, d *device) {
				d.ready()
				before := d.mustRead(everyEntity...)
				updates := oneOfEach(t)
				bad := remove(t, `table_entry { table_id: $smac match { field_id: 1 exact { value: "\x01" } } }`)
				req := batch(append(updates, bad)...)
				req.Atomicity = atomicity
				want := make([]codes.Code, len(updates)+1)
				for i := range want {
					want[i] = codes.Aborted
				}
				want[len(updates)] = codes.NotFound
				wantCodes(t, d.write(req), want...)
				if diff := sameEntities(before, d.mustRead(everyEntity...)); diff != "" {
					t.Errorf("after the rollback: %s", diff)
				}
				if got := d.outPorts(1, frame(9, 8, 0x1234)); len(got) == 1 && got[0] == 2 {
					t.Error("the data plane still forwards by a rolled-back entry")
				}
				// The same batch without the error is all there, and can be undone.
				req = batch(updates...)
				req.Atomicity = atomicity
				if err := d.write(req); err != nil {
					t.Fatal(err)
				}
				after := d.mustRead(everyEntity...)
				undo := batch(
					remove(t, macEntry), remove(t, `table_entry { table_id: $route match { field_id: 1 lpm { value: "\x0a\x00\x01\x00" prefix_len: 24 } } }`),
					modify(t, `table_entry { table_id: $smac is_default_action: true }`),
					remove(t, `digest_entry { digest_id: $learn_t }`),
					remove(t, `packet_replication_engine_entry { multicast_group_entry { multicast_group_id: 9 } }`),
					remove(t, `packet_replication_engine_entry { clone_session_entry { session_id: 4 } }`),
					modify(t, `value_set_entry { value_set_id: $trusted_types }`),
					modify(t, `action_profile_member { action_profile_id: $hops member_id: 3 action { action_id: $NoAction } }`),
					modify(t, `meter_entry { meter_id: $port_limits }`),
					modify(t, `counter_entry { counter_id: $port_packets data {} }`),
					bad)
				undo.Atomicity = atomicity
				wantCode(t, d.write(undo), codes.Unknown)
				if diff := sameEntities(after, d.mustRead(everyEntity...)); diff != "" {
					t.Errorf("after the second rollback: %s", diff)
				}
				if diff := cmp.Diff([]uint32{2}, d.outPorts(1, frame(9, 8, 0x1234))); diff != "" {
					t.Errorf("forwarding after the second rollback: %s", diff)
				}
			})
		})
	}
}
