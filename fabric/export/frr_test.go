package export

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
)

// TestFRR: FRR's own parser takes every line of every switch. What FRR before 10.3 does not know of static SIDs it says
// of these lines, and of no other.
func TestFRR(t *testing.T) {
	vtysh := systemtest.Program(t, "vtysh", "", "apt-get install frr")
	for _, spec := range []fabric.Spec{
		{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 2, HostsPerToR: 2}, {Kind: fabric.KindFatTree, K: 4},
	} {
		f, err := fabric.New(spec)
		if err != nil {
			t.Fatal(err)
		}
		p, err := New(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []fabric.NodeID{f.ToROf(0), f.CoreID(0), f.CoreID(0) - 1} { // one of each tier
			for _, sids := range []bool{false, true} {
				var b strings.Builder
				if err := p.FRR(&b, id, sids); err != nil {
					t.Fatal(err)
				}
				name := filepath.Join(t.TempDir(), f.Name(id)+".conf")
				if err := os.WriteFile(name, []byte(b.String()), 0o644); err != nil {
					t.Fatal(err)
				}
				out, err := exec.Command(vtysh, "-C", "-f", name).CombinedOutput()
				if err == nil {
					continue
				}
				if !strings.Contains(string(out), "Unknown command") {
					t.Skipf("vtysh does not run here: %v\n%s", err, out)
				}
				for line := range strings.Lines(string(out)) {
					if old := strings.Contains(line, "block-len") || strings.Contains(line, "behavior") ||
						strings.Contains(line, "static-sids"); !sids || !old {
						t.Errorf("%s, static SIDs %v: %s", f.Name(id), sids, line)
					}
				}
			}
		}
	}
}
