package p4runtime

import (
	"fmt"
	"testing"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
)

// namedConfig is the pipeline of the tests, whose controllers know ports, and what hop's entries match, by names.
func namedConfig(t testing.TB) *p4.ForwardingPipelineConfig {
	t.Helper()
	c := config(t)
	info := c.GetP4Info()
	translated := func() *p4config.P4NewTypeSpec {
		return &p4config.P4NewTypeSpec{Representation: &p4config.P4NewTypeSpec_TranslatedType{TranslatedType: &p4config.P4NewTypeTranslation{
			SdnType: &p4config.P4NewTypeTranslation_SdnString_{SdnString: &p4config.P4NewTypeTranslation_SdnString{}}}}}
	}
	info.TypeInfo = &p4config.P4TypeInfo{NewTypes: map[string]*p4config.P4NewTypeSpec{"port_id_t": translated(), "class_t": translated()}}
	port, class := &p4config.P4NamedType{Name: "port_id_t"}, &p4config.P4NamedType{Name: "class_t"}
	for _, a := range info.GetActions() {
		for _, p := range a.GetParams() {
			if p.GetName() == "port" {
				p.TypeName, p.Bitwidth = port, 0
			}
		}
	}
	for _, h := range info.GetControllerPacketMetadata() {
		for _, m := range h.GetMetadata() {
			if m.GetName() == "ingress_port" || m.GetName() == "egress_port" {
				m.TypeName, m.Bitwidth = port, 0
			}
		}
	}
	for _, x := range info.GetTables() {
		if x.GetPreamble().GetAlias() == "hop" {
			x.GetMatchFields()[0].TypeName, x.GetMatchFields()[0].Bitwidth = class, 0
		}
	}
	return c
}

// namedDevice runs namedConfig.
func namedDevice(d *device) *session {
	d.t.Helper()
	s := d.primary()
	if err := d.setPipeline(push(p4.SetForwardingPipelineConfigRequest_VERIFY_AND_COMMIT, namedConfig(d.t))); err != nil {
		d.t.Fatal(err)
	}
	return s
}

// byName is one entity of every kind that can have a name.
func byName(t testing.TB) []*p4.Update {
	t.Helper()
	return []*p4.Update{
		insert(t, `table_entry { table_id: $mac match { field_id: 1 exact { value: "\x09" } } action { action { action_id: $count_forward params { param_id: 1 value: "2" } } } }`),
		insert(t, `table_entry { table_id: $route match { field_id: 1 lpm { value: "\x0a\x00\x01\x00" prefix_len: 24 } }
			action { action_profile_action_set { action_profile_actions { action { action_id: $forward params { param_id: 1 value: "1" } } weight: 1 watch_port: "1" } } } }`),
		insert(t, `action_profile_member { action_profile_id: $hops member_id: 3 action { action_id: $tag params { param_id: 1 value: "\x43\x21" } } }`),
		insert(t, `table_entry { table_id: $hop match { field_id: 1 exact { value: "gold" } } match { field_id: 2 exact { value: "\x12\x34" } } action { action_profile_member_id: 3 } }`),
		insert(t, `table_entry { table_id: $hop match { field_id: 1 exact { value: "" } } match { field_id: 2 exact { value: "\x12\x34" } } action { action_profile_member_id: 3 } }`),
		insert(t, `packet_replication_engine_entry { multicast_group_entry { multicast_group_id: 9 replicas { port: "1" instance: 1 } replicas { port: "2" instance: 2 } } }`),
	}
}

// What is written by name is read by name, and after a program that keeps its entries.
func TestNames(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, d *device) {
		namedDevice(d)
		updates := byName(t)
		d.mustWrite(updates...)
		check := func() {
			t.Helper()
			for _, u := range updates {
				got, err := d.read(&p4.ReadRequest{DeviceId: testDevice, Entities: []*p4.Entity{u.GetEntity()}})
				if err != nil {
					t.Errorf("%v: %v", u, err)
				} else if diff := sameEntities([]*p4.Entity{u.GetEntity()}, got); diff != "" {
					t.Error(diff)
				}
			}
		}
		check()
		if err := d.setPipeline(push(p4.SetForwardingPipelineConfigRequest_RECONCILE_AND_COMMIT, namedConfig(t))); err != nil {
			t.Fatal(err)
		}
		check()
	})
}

// A packet that comes in at port 3 says so by name, and one goes out by name.
func TestPacketsByName(t *testing.T) {
	d := newDevice(t, nil)
	var out []byte
	d.core.cfg.OnPacketOut = func(b []byte) { out = b }
	s := namedDevice(d)
	d.core.PacketIn([]byte{0x01, 0x80, 0, 0, 'x'})
	m, err := s.recv()
	if err != nil {
		t.Fatal(err)
	}
	if got := string(m.GetPacket().GetMetadata()[0].GetValue()); got != "3" {
		t.Errorf("the packet came in at %q", got)
	}
	s.send(packetOut("y", meta(1, "2"), meta(2, "\x00")))
	if len(out) == 0 || int(out[0])<<1|int(out[1])>>7 != 2 {
		t.Errorf("the header of the packet is %x", out)
	}
}

// Names are refused that can have no number, and those that nothing holds make room.
func TestNamesRunOut(t *testing.T) {
	d := newDevice(t, nil)
	namedDevice(d)
	entry := func(class string, kind uint16) string {
		return fmt.Sprintf(`table_entry { table_id: $hop match { field_id: 1 exact { value: %q } } match { field_id: 2 exact { value: "\x%02x\x%02x" } } action { action_profile_member_id: 3 } }`,
			class, byte(kind>>8)|1, byte(kind))
	}
	d.mustWrite(insert(t, `action_profile_member { action_profile_id: $hops member_id: 3 action { action_id: $tag params { param_id: 1 value: "\x43\x21" } } }`))
	for i := range 1000 { // eight bits
		d.mustWrite(insert(t, entry(fmt.Sprint("c", i), 1)))
		d.mustWrite(remove(t, entry(fmt.Sprint("c", i), 1)))
	}
	try := func(class string) codes.Code {
		if got := errorCodes(d.write(batch(insert(t, entry(class, 2))))); len(got) == 1 {
			return got[0]
		}
		return codes.OK
	}
	if got := try("256"); got != codes.InvalidArgument {
		t.Errorf("a number of nine bits: %v", got)
	}
	// The last name has a number that nobody may say as such.
	taken := d.core.live.names["class_t"].numbers["c999"]
	if got := try(fmt.Sprint(taken)); got != codes.InvalidArgument {
		t.Errorf("the number of a name, %d: %v", taken, got)
	}
	for i := 0; len(d.core.live.names["class_t"].numbers) < 255; i++ {
		if _, err := d.core.live.numberOfName(d.core.live.nameTypes["class_t"], fmt.Sprint("d", i)); err != nil {
			t.Fatal(err)
		}
	}
	d.core.live.inTx = true // names may be wanted again
	if got := try("one more"); got != codes.ResourceExhausted {
		t.Errorf("a name too many: %v", got)
	}
	d.core.live.inTx = false
	if got := try("one more"); got != codes.OK {
		t.Errorf("a name in place of those nothing holds: %v", got)
	}
}
