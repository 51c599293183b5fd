package drains

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// TestAgree has operators ask different controllers, which show each other their
// sets in any order, several times or late: they agree in the end, and on the last
// word wherever one operator had seen the other's.
func TestAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"a", "b", "c"}
		sets := make([]Set, len(names))
		pick := func(label string) int { return rapid.IntRange(0, len(names)-1).Draw(t, label) }
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			i := pick("controller")
			if rapid.Bool().Draw(t, "put") {
				id := fabric.LinkID(rapid.IntRange(0, 3).Draw(t, "link"))
				on := rapid.Bool().Draw(t, "drained")
				sets[i].Put(id, on, false, names[i])
				if again := sets[i].Put(id, on, false, names[i]); again {
					t.Fatal("the same mark is news twice")
				}
			} else {
				from := pick("from")
				sets[i].Merge(sets[from].Marks())
				if news := sets[i].Merge(sets[from].Marks()); len(news) > 0 {
					t.Fatalf("the same marks are news twice: %+v", news)
				}
			}
		}
		last := fabric.LinkID(2)
		all := append(sets[0].Marks(), append(sets[1].Marks(), sets[2].Marks()...)...)
		sets[1].Merge(all)
		sets[1].Put(last, true, false, "b")
		for i := range sets {
			sets[i].Merge(all)
			sets[i].Merge(sets[1].Marks())
			if d := cmp.Diff(sets[1].Marks(), sets[i].Marks()); d != "" {
				t.Fatalf("controllers differ:\n%s", d)
			}
		}
		for _, m := range sets[2].Marks() {
			if m.Link == last && !m.Drained {
				t.Fatal("the last word is lost")
			}
		}
	})
}
