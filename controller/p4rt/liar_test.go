package p4rt

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/p4src"
)

// TestLyingRead has a switch answer a Read with entries left out, repeated, taken from elsewhere and garbled. The
// controller's repair is bounded by the entries read and wanted, and leads from the former to the latter.
func TestLyingRead(t *testing.T) {
	schema, err := NewSchema(p4src.V1ModelP4Info())
	if err != nil {
		t.Fatal(err)
	}
	want := aggTables(t)
	var truth []*p4.Entity
	for _, e := range want {
		x, err := schema.EncodeEntry(e, false)
		if err != nil {
			t.Fatal(err)
		}
		truth = append(truth, x)
	}
	rapid.Check(t, func(t *rapid.T) {
		var answered []*p4.Entity
		for _, e := range truth {
			switch rapid.IntRange(0, 9).Draw(t, "lie") {
			case 0: // left out
			case 1:
				answered = append(answered, e, e)
			case 2:
				answered = append(answered, truth[rapid.IntRange(0, len(truth)-1).Draw(t, "other")])
			case 3:
				wire, err := proto.Marshal(e)
				if err != nil {
					t.Fatal(err)
				}
				wire[rapid.IntRange(0, len(wire)-1).Draw(t, "byte")] ^= byte(rapid.IntRange(1, 255).Draw(t, "bits"))
				if x := (&p4.Entity{}); proto.Unmarshal(wire, x) == nil {
					answered = append(answered, x)
				}
			default:
				answered = append(answered, e)
			}
		}
		held := Collect(schema, answered)
		updates := controller.Diff(held.Entries, want)
		if most := len(answered) + len(want) + 64; len(updates)+len(held.Stray) > most {
			t.Fatalf("%d updates and %d strays of %d entries answered and %d wanted", len(updates), len(held.Stray), len(answered), len(want))
		}
		now := map[controller.Key]controller.Entry{}
		for _, e := range held.Entries {
			now[e.Key] = e
		}
		for _, u := range updates {
			if _, err := schema.Encode(u); err != nil {
				t.Fatal(err)
			}
			if u.Op == controller.Delete {
				delete(now, u.Entry.Key)
			} else {
				now[u.Entry.Key] = u.Entry
			}
		}
		for _, e := range want {
			if diff := cmp.Diff(e, now[e.Key]); diff != "" {
				t.Fatalf("after the repair (-want +got):\n%s", diff)
			}
		}
		if len(now) != len(want) {
			t.Fatalf("%d entries after the repair, want %d", len(now), len(want))
		}
	})
}
