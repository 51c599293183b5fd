package p4runtime

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/testing/protocmp"
)

// The requirements of docs/results/p4runtime.md that no other test is about.

func TestZeroIsAValue(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, d *device) {
		d.ready()
		want := entity(t, `table_entry { table_id: $mac match { field_id: 1 exact { value: "\x00" } } action { action { action_id: $count_forward params { param_id: 1 value: "\x00" } } } }`)
		d.mustWrite(&p4.Update{Type: p4.Update_INSERT, Entity: want})
		if diff := sameEntities([]*p4.Entity{want}, d.mustRead(`table_entry { table_id: $mac }`)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestGroupIsReplaced(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, d *device) {
		d.ready()
		group := func(members string) string {
			return `action_profile_group { action_profile_id: $ecmp group_id: 1 max_size: 4 ` + members + ` }`
		}
		d.mustWrite(insert(t, ecmpMember(1, 1)), insert(t, ecmpMember(2, 2)))
		for _, step := range []struct {
			change  func(testing.TB, string) *p4.Update
			members string
		}{{insert, ``}, {modify, `members { member_id: 1 weight: 1 }`}, {modify, `members { member_id: 2 weight: 2 }`}, {modify, ``}} {
			d.mustWrite(step.change(t, group(step.members)))
			want := []*p4.Entity{entity(t, group(step.members))}
			if diff := sameEntities(want, d.mustRead(`action_profile_group {}`)); diff != "" {
				t.Error(diff)
			}
		}
		d.mustWrite(remove(t, ecmpMember(1, 1)), remove(t, ecmpMember(2, 2))) // no group has them any more
	})
}

func TestProfileFull(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, d *device) {
		d.ready()
		for i := range 16 { // the size of hops
			d.mustWrite(insert(t, hopMember(byte(i+1), 1)))
		}
		wantCodes(t, d.write(batch(insert(t, hopMember(17, 1)))), codes.ResourceExhausted)
	})
}

func TestPacketsKeepTheirOrder(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, d *device) {
		s := d.ready()
		d.mustWrite(insert(t, `table_entry { table_id: $acl priority: 1 action { action { action_id: $punt } } }`))
		for i := range 20 {
			d.inject(3, frame(1, 2, 0x1234, byte(i)))
		}
		for i := range 20 {
			if diff := cmp.Diff(frame(1, 2, 0x1234, byte(i)), s.mustRecv().GetPacket().GetPayload(), protocmp.Transform()); diff != "" {
				t.Fatal(fmt.Sprint(i), diff)
			}
		}
	})
}
