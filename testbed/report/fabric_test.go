package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Results of one scenario on two fabrics are not seeds of each other.
func TestTwoFabrics(t *testing.T) {
	small, large := made(demoFabric)[:2], made(fabric.Spec{Kind: fabric.KindFatTree, K: 8})[:2]
	rs := append(small, large...)
	var page, text, table bytes.Buffer
	if err := Summary(&text, rs); err != nil {
		t.Fatal(err)
	}
	if err := HTML(&page, rs, Page{Charts: true}); err != nil {
		t.Fatal(err)
	}
	if err := Table(&table, rs); err != nil {
		t.Fatal(err)
	}
	for what, out := range map[string]string{"summary": text.String(), "page": page.String(), "table": table.String()} {
		for _, want := range []string{"fat-tree of 16 hosts", "fat-tree of 128 hosts"} {
			if !strings.Contains(out, want) {
				t.Errorf("the %s does not name %s", what, want)
			}
		}
	}
	if got := byFabric(small); got[0] != small[0] {
		t.Error("one fabric is named")
	}
	large[0].Variant = map[string]string{"fabric.k": "8"}
	if got := byFabric(rs); got[2] != large[0] || got[0] == small[0] {
		t.Error("what says so itself is named again, or what does not is not")
	}
}
