package p4runtime

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/testing/protocmp"
)

// route programs 10.0.1.0/24 in one shot over ports 1 to n, each its own
// watch port.
func route(n int) string {
	s := `table_entry { table_id: $route match { field_id: 1 lpm { value: "\x0a\x00\x01\x00" prefix_len: 24 } } action { action_profile_action_set {`
	for i := range n {
		s += fmt.Sprintf(` action_profile_actions { action { action_id: $forward params { param_id: 1 value: "\x%02x" } } weight: 1 watch_port: "\x%02x" }`, i+1, i+1)
	}
	return s + ` } } }`
}

// spread counts the ports at which 256 packets to 10.0.1.1 leave. Their ids
// vary in all bits: CRC-16's low bits do not mix consecutive ones.
func (d *device) spread() map[uint32]int {
	out := map[uint32]int{}
	for i := range uint16(256) {
		for _, port := range d.outPorts(4, ipv4(1, i*0x9e37)) {
			out[port]++
		}
	}
	return out
}

// A watched port that goes down loses its share to the others in the data
// plane, without a write, and gets it back.
func TestWatchPortsFailOver(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, d *device) {
		d.ready()
		d.mustWrite(insert(t, route(4)))
		before := d.mustRead(`table_entry {}`)
		all := d.spread()
		if len(all) != 4 {
			t.Fatalf("packets leave at %v, want four ports", all)
		}
		d.locked(func() { d.ports.SetOper(2, false, 1) }) //nolint:errcheck // the port is there
		down := d.spread()
		if down[2] != 0 || len(down) != 3 {
			t.Errorf("with port 2 down packets leave at %v", down)
		}
		if diff := sameEntities(before, d.mustRead(`table_entry {}`)); diff != "" {
			t.Errorf("the controller sees the failover: %s", diff)
		}
		// A selector programmed while the port is down keeps off it too.
		d.mustWrite(modify(t, route(2)))
		if got := d.spread(); len(got) != 1 || got[1] == 0 {
			t.Errorf("a new selector sends to %v, want port 1 alone", got)
		}
		d.mustWrite(modify(t, route(4)))
		d.locked(func() { d.ports.SetOper(2, true, 2) }) //nolint:errcheck // the port is there
		if diff := cmp.Diff(all, d.spread()); diff != "" {
			t.Errorf("with port 2 up again: %s", diff)
		}
		// Admin state counts as well.
		d.locked(func() { d.ports.SetAdmin(3, false, 3) }) //nolint:errcheck // the port is there
		if got := d.spread(); got[3] != 0 {
			t.Errorf("with port 3 disabled packets leave at %v", got)
		}
		// So does a port that is not viable, though it stays up.
		d.locked(func() { d.ports.Configure(4, false, "GOOD", 4) }) //nolint:errcheck // the port is there
		if got := d.spread(); got[4] != 0 || len(got) != 2 {
			t.Errorf("with port 3 disabled and port 4 not viable packets leave at %v", got)
		}
	})
}

func TestOneShotWeights(t *testing.T) {
	d := newDevice(t, nil)
	d.ready()
	d.mustWrite(insert(t, `table_entry { table_id: $route match { field_id: 1 lpm { value: "\x0a\x00\x01\x00" prefix_len: 24 } } action { action_profile_action_set {
		action_profile_actions { action { action_id: $forward params { param_id: 1 value: "\x01" } } weight: 3 }
		action_profile_actions { action { action_id: $forward params { param_id: 1 value: "\x02" } } weight: 1 } } } }`))
	got := d.spread()
	if got[1] < 160 || got[1] > 224 || got[1]+got[2] != 256 {
		t.Errorf("weights 3 and 1 gave %v of 256 packets", got)
	}
}

// One-shots of many entries share members, so that a selector's size bounds
// groups and not routes.
func TestOneShotsShareMembers(t *testing.T) {
	d := newDevice(t, nil)
	d.ready()
	for i := range 60 {
		u := insert(t, route(4))
		u.GetEntity().GetTableEntry().GetMatch()[0].GetLpm().Value = []byte{10, 1, byte(i), 0}
		d.mustWrite(u)
	}
	ps := d.core.live.profileStates[d.core.live.profiles.byID[ids()["ecmp"]].index]
	if n := len(ps.shared); n != 4 {
		t.Errorf("60 routes over the same 4 actions take %d members", n)
	}
	for i := range 60 {
		u := remove(t, route(4))
		u.GetEntity().GetTableEntry().GetMatch()[0].GetLpm().Value = []byte{10, 1, byte(i), 0}
		d.mustWrite(u)
	}
	if len(ps.shared) != 0 || ps.oneShots != 0 || len(ps.watched[1]) != 0 {
		t.Errorf("after all is deleted: %d members, %d one-shots, %d watch port 1", len(ps.shared), ps.oneShots, len(ps.watched[1]))
	}
	for range d.core.Switch().Members(ps.pid) {
		t.Error("a member is left in the switch")
	}
	for range d.core.Switch().Groups(ps.pid) {
		t.Error("a group is left in the switch")
	}
}

func ecmpMember(id, port int) string {
	return fmt.Sprintf(`action_profile_member { action_profile_id: $ecmp member_id: %d action { action_id: $forward params { param_id: 1 value: "\x%02x" } } }`, id, port)
}

func TestGroupsAndMembers(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, d *device) {
		d.ready()
		const entry = `table_entry { table_id: $route match { field_id: 1 lpm { value: "\x0a\x00\x01\x00" prefix_len: 24 } } action { action_profile_group_id: 1 } }`
		const byMember = `table_entry { table_id: $route match { field_id: 1 lpm { value: "\x0a\x00\x02\x00" prefix_len: 24 } } action { action_profile_member_id: 1 } }`
		// Member 1 is watched in group 1, not in group 2, and used by itself.
		d.mustWrite(
			insert(t, ecmpMember(1, 1)), insert(t, ecmpMember(2, 2)),
			insert(t, `action_profile_group { action_profile_id: $ecmp group_id: 1 members { member_id: 1 weight: 1 watch_port: "\x01" } members { member_id: 2 weight: 1 watch_port: "\x02" } }`),
			insert(t, `action_profile_group { action_profile_id: $ecmp group_id: 2 max_size: 4 members { member_id: 1 weight: 2 } }`),
			insert(t, entry), insert(t, byMember))
		if got := d.spread(); len(got) != 2 {
			t.Errorf("group 1 sends to %v", got)
		}
		d.locked(func() { d.ports.SetOper(1, false, 1) }) //nolint:errcheck // the port is there
		if got := d.spread(); got[2] != 256 {
			t.Errorf("with port 1 down group 1 sends to %v", got)
		}
		if diff := cmp.Diff([]uint32{1}, d.outPorts(4, ipv4(2, 0))); diff != "" {
			t.Errorf("a member that is not watched follows the port: %s", diff)
		}
		// A modified member changes wherever it is used.
		d.mustWrite(modify(t, ecmpMember(1, 3)))
		d.locked(func() { d.ports.SetOper(1, true, 2) }) //nolint:errcheck // the port is there
		if got := d.spread(); got[3] == 0 || got[1] != 0 {
			t.Errorf("after member 1 moved to port 3 group 1 sends to %v", got)
		}
		if diff := cmp.Diff([]uint32{3}, d.outPorts(4, ipv4(2, 0))); diff != "" {
			t.Error(diff)
		}
		for _, c := range []struct {
			name   string
			update *p4.Update
			want   codes.Code
		}{
			{"member in use", remove(t, ecmpMember(1, 1)), codes.FailedPrecondition},
			{"group in use", remove(t, `action_profile_group { action_profile_id: $ecmp group_id: 1 }`), codes.FailedPrecondition},
			{"member is there", insert(t, ecmpMember(1, 1)), codes.AlreadyExists},
			{"group is there", insert(t, `action_profile_group { action_profile_id: $ecmp group_id: 1 }`), codes.AlreadyExists},
			{"member twice", modify(t, `action_profile_group { action_profile_id: $ecmp group_id: 1 members { member_id: 1 weight: 1 } members { member_id: 1 weight: 1 } }`), codes.InvalidArgument},
			{"weight 0", modify(t, `action_profile_group { action_profile_id: $ecmp group_id: 1 members { member_id: 1 } }`), codes.InvalidArgument},
			{"max_size changes", modify(t, `action_profile_group { action_profile_id: $ecmp group_id: 2 max_size: 5 }`), codes.InvalidArgument},
			{"above max_size", modify(t, `action_profile_group { action_profile_id: $ecmp group_id: 2 max_size: 4 members { member_id: 1 weight: 5 } }`), codes.ResourceExhausted},
			{"one-shot beside groups", insert(t, `table_entry { table_id: $route match { field_id: 1 lpm { value: "\x0a\x00\x03\x00" prefix_len: 24 } } `+oneShot+` }`), codes.InvalidArgument},
		} {
			err := d.write(batch(c.update))
			t.Run(c.name, func(t *testing.T) { wantCodes(t, err, c.want) })
		}
		d.mustWrite(remove(t, entry), remove(t, byMember))
		d.mustWrite(remove(t, `action_profile_group { action_profile_id: $ecmp group_id: 1 }`), remove(t, `action_profile_group { action_profile_id: $ecmp group_id: 2 }`))
		d.mustWrite(remove(t, ecmpMember(1, 1)), remove(t, ecmpMember(2, 2)))
		// Now the selector is free for one-shots, which in turn shut groups out.
		d.mustWrite(insert(t, route(2)))
		wantCodes(t, d.write(batch(insert(t, ecmpMember(1, 1)))), codes.InvalidArgument)
		wantCodes(t, d.write(batch(insert(t, `action_profile_group { action_profile_id: $ecmp group_id: 1 }`))), codes.InvalidArgument)
	})
}

func TestMulticastWithBackups(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, d *device) {
		d.ready()
		d.mustWrite(
			modify(t, `table_entry { table_id: $extra is_default_action: true action { action { action_id: $replicate params { param_id: 1 value: "\x09" } } } }`),
			insert(t, `packet_replication_engine_entry { multicast_group_entry { multicast_group_id: 9
				replicas { port: "\x01" instance: 1 }
				replicas { port: "\x02" instance: 2 backup_replicas { port: "\x03" instance: 3 } backup_replicas { port: "\x04" instance: 4 } } } }`))
		check := func(what string, want ...uint32) {
			t.Helper()
			if diff := cmp.Diff(want, d.outPorts(4, frame(1, 2, 0x1234))); diff != "" {
				t.Errorf("%s: %s", what, diff)
			}
		}
		set := func(port uint32, up bool) {
			d.locked(func() { d.ports.SetOper(port, up, 1) }) //nolint:errcheck // the port is there
		}
		check("all up", 1, 2)
		set(2, false)
		check("primary down", 1, 3)
		set(3, false)
		check("first backup down", 1, 4)
		set(4, false)
		check("all of the chain down", 1)
		set(3, true)
		check("first backup up", 1, 3)
		set(2, true)
		check("primary up", 1, 2)
		set(1, false)
		check("a replica without backups is made in any case", 1, 2)
	})
}

func TestCloneSession(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, d *device) {
		d.ready()
		d.mustWrite(
			insert(t, macEntry),
			modify(t, `table_entry { table_id: $extra is_default_action: true action { action { action_id: $mirror params { param_id: 1 value: "\x04" } } } }`))
		pkt := frame(9, 8, 0x1234, make([]byte, 50)...)
		if diff := cmp.Diff([]uint32{2}, d.outPorts(1, pkt)); diff != "" {
			t.Errorf("without the session: %s", diff)
		}
		d.mustWrite(insert(t, `packet_replication_engine_entry { clone_session_entry { session_id: 4 replicas { port: "\x03" instance: 1 } packet_length_bytes: 20 } }`))
		sizes := map[uint32]int{}
		for _, e := range d.inject(1, pkt) {
			sizes[e.Port] = len(e.Data)
		}
		if diff := cmp.Diff(map[uint32]int{2: 64, 3: 20}, sizes); diff != "" {
			t.Errorf("sizes by port: %s", diff)
		}
		d.mustWrite(remove(t, `packet_replication_engine_entry { clone_session_entry { session_id: 4 } }`))
		if diff := cmp.Diff([]uint32{2}, d.outPorts(1, pkt)); diff != "" {
			t.Errorf("after the session is deleted: %s", diff)
		}
	})
}

func TestCounters(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, d *device) {
		d.ready()
		d.mustWrite(insert(t, macEntry))
		for range 3 {
			d.inject(1, frame(9, 8, 0x1234))
		}
		one := func(q string) *p4.Entity {
			t.Helper()
			got := d.mustRead(q)
			if len(got) != 1 {
				t.Fatalf("%s: %d entities", q, len(got))
			}
			return got[0]
		}
		want := &p4.CounterData{PacketCount: 3, ByteCount: 42}
		direct := `direct_counter_entry { table_entry { table_id: $mac match { field_id: 1 exact { value: "\x09" } } } }`
		for _, c := range []struct {
			name string
			got  *p4.CounterData
		}{
			{"indirect", one(`counter_entry { counter_id: $port_packets index { index: 1 } }`).GetCounterEntry().GetData()},
			{"direct", one(direct).GetDirectCounterEntry().GetData()},
			{"in the entry", one(`table_entry { table_id: $mac counter_data {} }`).GetTableEntry().GetCounterData()},
		} {
			if diff := cmp.Diff(want, c.got, protocmp.Transform()); diff != "" {
				t.Errorf("%s: %s", c.name, diff)
			}
		}
		if d := one(`table_entry { table_id: $mac }`).GetTableEntry().GetCounterData(); d != nil {
			t.Errorf("counter_data %v was not asked for", d)
		}
		// MODIFY without counter_data keeps the count, with it sets it.
		d.mustWrite(modify(t, macEntry))
		if got := one(direct).GetDirectCounterEntry().GetData(); got.GetPacketCount() != 3 {
			t.Errorf("MODIFY changed the count to %v", got)
		}
		d.mustWrite(modify(t, `direct_counter_entry { table_entry { table_id: $mac match { field_id: 1 exact { value: "\x09" } } } data { packet_count: 10 byte_count: 20 } }`))
		d.mustWrite(modify(t, `counter_entry { counter_id: $port_packets data { packet_count: 5 } }`))
		d.inject(1, frame(9, 8, 0x1234))
		if got := one(direct).GetDirectCounterEntry().GetData(); got.GetPacketCount() != 11 || got.GetByteCount() != 34 {
			t.Errorf("after it was set to 10, 20 and a packet of 14 bytes: %v", got)
		}
		if got := one(`counter_entry { counter_id: $port_packets index { index: 1 } }`).GetCounterEntry().GetData(); got.GetPacketCount() != 6 {
			t.Errorf("after all cells were set to 5 and a packet: %v", got)
		}
		if got := len(d.mustRead(`counter_entry { counter_id: $port_packets }`)); got != 512 {
			t.Errorf("a read of all cells gives %d, want 512", got)
		}
	})
}

func TestRegistersAreTheProgramS(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, d *device) {
		d.ready()
		d.mustWrite(modify(t, `table_entry { table_id: $extra is_default_action: true action { action { action_id: $remember_narrow params { param_id: 1 value: "\x02" } params { param_id: 2 value: "\x0a\xbc" } } } }`))
		d.inject(1, frame(1, 2, 0x1234))
		want := []*p4.Entity{entity(t, `register_entry { register_id: $narrow index { index: 2 } data { bitstring: "\x0a\xbc" } }`)}
		if diff := sameEntities(want, d.mustRead(`register_entry { register_id: $narrow index { index: 2 } }`)); diff != "" {
			t.Error(diff)
		}
		d.mustWrite(modify(t, `register_entry { register_id: $scratch data { bitstring: "\x07" } }`))
		got := d.mustRead(`register_entry { register_id: $scratch }`)
		if len(got) != 16 {
			t.Fatalf("%d cells, want 16", len(got))
		}
		for _, e := range got {
			if v := e.GetRegisterEntry().GetData().GetBitstring(); string(v) != "\x07" {
				t.Errorf("cell %d holds %x", e.GetRegisterEntry().GetIndex().GetIndex(), v)
			}
		}
	})
}

func TestMeterConfig(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, d *device) {
		d.ready()
		const key = `table_id: $acl priority: 10 match { field_id: 2 range { low: "\x03" high: "\x04" } }`
		d.mustWrite(insert(t, `table_entry { `+key+` action { action { action_id: $deny } } }`))
		read := func() *p4.MeterConfig {
			t.Helper()
			return d.mustRead(`direct_meter_entry { table_entry { ` + key + ` } }`)[0].GetDirectMeterEntry().GetConfig()
		}
		if c := read(); c != nil {
			t.Errorf("a new entry's meter is %v", c)
		}
		d.mustWrite(modify(t, `direct_meter_entry { table_entry { `+key+` } config { cir: 1 cburst: 2 pir: 3 pburst: 4 } }`))
		if c := read(); c.GetPir() != 3 {
			t.Errorf("the meter is %v", c)
		}
		// MODIFY of the entry without meter_config resets it.
		d.mustWrite(modify(t, `table_entry { `+key+` action { action { action_id: $deny } } }`))
		if c := read(); c != nil {
			t.Errorf("after MODIFY without meter_config: %v", c)
		}
		d.mustWrite(modify(t, `meter_entry { meter_id: $port_limits config { cir: 1 cburst: 1 pir: 1 pburst: 1 } }`))
		if n := len(d.mustRead(`meter_entry { meter_id: $port_limits }`)); n != 512 {
			t.Errorf("%d cells", n)
		}
		d.mustWrite(modify(t, `meter_entry { meter_id: $port_limits index { index: 3 } }`))
		if c := d.mustRead(`meter_entry { meter_id: $port_limits index { index: 3 } }`)[0].GetMeterEntry().GetConfig(); c != nil {
			t.Errorf("a cleared cell is %v", c)
		}
	})
}

// A value set changes how the parser goes.
func TestValueSet(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, d *device) {
		d.ready()
		d.mustWrite(
			insert(t, macEntry),
			insert(t, `action_profile_member { action_profile_id: $hops member_id: 3 action { action_id: $tag params { param_id: 1 value: "\x43\x21" } } }`))
		d.mustWrite(insert(t, `table_entry { table_id: $hop match { field_id: 1 exact { value: "\x01" } } match { field_id: 2 exact { value: "\x12\x34" } } action { action_profile_member_id: 3 } }`))
		tag := func() string {
			return fmt.Sprintf("%x", d.inject(1, frame(9, 8, 0x1234))[0].Data[12:14])
		}
		if got := tag(); got != "1234" {
			t.Errorf("before: type %s", got)
		}
		d.mustWrite(modify(t, `value_set_entry { value_set_id: $trusted_types members { match { field_id: 1 exact { value: "\x12\x34" } } } }`))
		if got := tag(); got != "4321" {
			t.Errorf("with the type in the set: type %s", got)
		}
		d.mustWrite(modify(t, `value_set_entry { value_set_id: $trusted_types }`))
		if got := tag(); got != "1234" {
			t.Errorf("with the set emptied: type %s", got)
		}
	})
}

func TestDefaultEntry(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, d *device) {
		d.ready()
		q := `table_entry { table_id: $mac is_default_action: true }`
		original := d.mustRead(q)
		if a := original[0].GetTableEntry().GetAction().GetAction().GetActionId(); a != ids()["NoAction"] {
			t.Errorf("the program's default is action %#x", a)
		}
		u := modify(t, `table_entry { table_id: $mac is_default_action: true controller_metadata: 3 metadata: "x" action { action { action_id: $count_forward params { param_id: 1 value: "\x03" } } } }`)
		d.mustWrite(u)
		if diff := sameEntities([]*p4.Entity{u.GetEntity()}, d.mustRead(q)); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]uint32{3}, d.outPorts(1, frame(1, 2, 0x1234))); diff != "" {
			t.Error(diff)
		}
		d.mustWrite(modify(t, `table_entry { table_id: $mac is_default_action: true }`))
		if diff := sameEntities(original, d.mustRead(q)); diff != "" {
			t.Errorf("after the reset: %s", diff)
		}
	})
}
