package workload

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOthersTraces reads and carries out the Chakra traces that others have
// made: all below the folder CHAKRA_TRACES names, such as a checkout of
// astra-sim.
func TestOthersTraces(t *testing.T) {
	dir := os.Getenv("CHAKRA_TRACES")
	if dir == "" {
		t.Skip("set CHAKRA_TRACES to a folder with PREFIX.0.et, PREFIX.1.et, ...")
	}
	found := 0
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		prefix, first := strings.CutSuffix(path, ".0.et")
		if err != nil || !first {
			return err
		}
		found++
		name, _ := filepath.Rel(dir, prefix)
		t.Run(name, func(t *testing.T) {
			p, err := Chakra{Trace: prefix}.Program()
			if err != nil {
				t.Fatal(err)
			}
			for _, note := range p.Notes() {
				t.Log(note)
			}
			received, end := play(t, p, 1)
			total := int64(0)
			for _, b := range received {
				total += b
			}
			t.Logf("%d ranks, %d bytes received, the longest computation %v, done at %v", len(p.Ranks), total, p.LongestCompute(), end)
			if total == 0 && len(p.Ranks) > 1 {
				t.Error("nothing is sent")
			}
		})
		return nil
	})
	if err != nil || found == 0 {
		t.Fatalf("%d traces below %s: %v", found, dir, err)
	}
}
