package p4runtime

import (
	"fmt"
	"testing"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

// drawUpdate draws an update of a handful of objects, so that updates often
// meet what others left, and often fail.
func drawUpdate(rt *rapid.T, t *testing.T) *p4.Update {
	small := func(name string) int { return rapid.IntRange(1, 3).Draw(rt, name) }
	var text string
	switch rapid.IntRange(0, 7).Draw(rt, "kind") {
	case 0:
		text = fmt.Sprintf(`table_entry { table_id: $mac match { field_id: 1 exact { value: "\x%02x" } } idle_timeout_ns: %d action { action { action_id: $count_forward params { param_id: 1 value: "\x%02x" } } } }`,
			small("mac"), small("timeout")-1, small("port"))
	case 1:
		text = route(small("ports"))
	case 2:
		text = fmt.Sprintf(`table_entry { table_id: $acl priority: %d match { field_id: 3 optional { value: "\x%02x" } } action { action { action_id: $deny } } meter_config { cir: 1 cburst: 1 pir: 2 pburst: %d } }`,
			small("priority"), small("type"), small("burst"))
	case 3:
		text = ecmpMember(small("member"), small("port"))
	case 4:
		text = fmt.Sprintf(`action_profile_group { action_profile_id: $ecmp group_id: %d members { member_id: %d weight: %d watch_port: "\x%02x" } members { member_id: %d weight: 1 } }`,
			small("group"), small("first"), small("weight"), small("watch"), small("second"))
	case 5:
		text = fmt.Sprintf(`table_entry { table_id: $route match { field_id: 1 lpm { value: "\x0a\x00\x%02x\x00" prefix_len: 24 } } action { action_profile_group_id: %d } }`,
			small("subnet"), small("group"))
	case 6:
		text = fmt.Sprintf(`packet_replication_engine_entry { multicast_group_entry { multicast_group_id: %d replicas { port: "\x%02x" instance: 1 backup_replicas { port: "\x04" instance: 1 } } } }`,
			small("group"), small("port"))
	default:
		text = fmt.Sprintf(`packet_replication_engine_entry { clone_session_entry { session_id: %d replicas { port: "\x%02x" instance: 1 } } }`,
			small("session"), small("port"))
	}
	typ := rapid.SampledFrom([]p4.Update_Type{p4.Update_INSERT, p4.Update_INSERT, p4.Update_MODIFY, p4.Update_DELETE}).Draw(rt, "type")
	return &p4.Update{Type: typ, Entity: entity(t, text)}
}

// TestRandomBatches runs random batches on two switches: one takes every
// batch atomically, the other one update at a time. They agree whenever the
// batch succeeds; when it fails, the first is as before. In the end both
// forward alike, and a third switch that inherits the first's state does too.
func TestRandomBatches(t *testing.T) {
	state := []string{`table_entry { meter_config {} }`, `action_profile_member {}`, `action_profile_group {}`,
		`packet_replication_engine_entry { multicast_group_entry {} }`, `packet_replication_engine_entry { clone_session_entry {} }`}
	rapid.Check(t, func(rt *rapid.T) {
		a, b := newDevice(t, nil), newDevice(t, nil)
		a.ready()
		b.ready()
		for range rapid.IntRange(1, 8).Draw(rt, "batches") {
			var updates []*p4.Update
			for range rapid.IntRange(1, 5).Draw(rt, "updates") {
				updates = append(updates, drawUpdate(rt, t))
			}
			if port := rapid.Uint32Range(0, 4).Draw(rt, "port"); port > 0 {
				up := rapid.Bool().Draw(rt, "up")
				a.ports.SetOper(port, up, 1) //nolint:errcheck // the port is there
				b.ports.SetOper(port, up, 1) //nolint:errcheck // likewise
			}
			before := a.mustRead(state...)
			req := batch(updates...)
			req.Atomicity = p4.WriteRequest_ROLLBACK_ON_ERROR
			if a.write(proto.Clone(req).(*p4.WriteRequest)) != nil {
				if diff := sameEntities(before, a.mustRead(state...)); diff != "" {
					rt.Fatalf("after a rollback: %s", diff)
				}
				continue
			}
			for _, u := range updates {
				if err := b.write(batch(u)); err != nil {
					rt.Fatalf("alone, an update of a good batch fails: %v", err)
				}
			}
			if diff := sameEntities(a.mustRead(state...), b.mustRead(state...)); diff != "" {
				rt.Fatalf("batch and single updates differ: %s", diff)
			}
		}
		forward := func(d *device) string {
			out := ""
			for i := range uint16(24) {
				out += fmt.Sprint(d.outPorts(4, ipv4(byte(i%4), i*0x9e37)), d.outPorts(4, frame(byte(i%4), 1, i%5)))
			}
			return out
		}
		want := forward(a)
		if got := forward(b); got != want {
			rt.Fatalf("the switches forward differently:\n%s\n%s", want, got)
		}
		if err := a.setPipeline(push(reconcile, config(t))); err != nil {
			rt.Fatalf("the state cannot be inherited: %v", err)
		}
		if diff := sameEntities(b.mustRead(state...), a.mustRead(state...)); diff != "" {
			rt.Fatalf("inherited state differs: %s", diff)
		}
		if got := forward(a); got != want {
			rt.Fatalf("the heir forwards differently:\n%s\n%s", want, got)
		}
	})
}
