// Package stftest has p4c's own STF scripts tried by tests.
package stftest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ethereal-fabric/ethereal/internal/systemtest"
)

// Samples compiles p4c's v1model programs that come with an STF script, and calls try with each in a subtest. P4C names
// the compiler (p4c-bm2-ss), P4C_SAMPLES the directory testdata/p4_16_samples of its sources, P4C_CACHE, if set, a
// directory that keeps the compiled programs. Without the first two the test is skipped.
func Samples(t *testing.T, try func(t *testing.T, json []byte, script string)) {
	t.Helper()
	p4c := systemtest.Program(t, "p4c-bm2-ss", "P4C", "name p4c's compiler for BMv2 in P4C")
	dir := os.Getenv("P4C_SAMPLES")
	if dir == "" {
		t.Skip("P4C_SAMPLES does not name p4c's testdata/p4_16_samples")
	}
	scripts, err := filepath.Glob(filepath.Join(dir, "*-bmv2.stf"))
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no *-bmv2.stf in P4C_SAMPLES %q", dir)
	}
	cache := os.Getenv("P4C_CACHE")
	if cache == "" {
		cache = t.TempDir()
	}
	for _, script := range scripts {
		base := strings.TrimSuffix(filepath.Base(script), ".stf")
		t.Run(base, func(t *testing.T) {
			src := filepath.Join(dir, base+".p4")
			text, err := os.ReadFile(src)
			if err != nil {
				t.Skipf("no program for the script: %v", err)
			}
			for _, arch := range []string{"psa.p4", "pna.p4", "dpdk"} {
				if strings.Contains(string(text), arch) {
					t.Skipf("not v1model but %s", arch)
				}
			}
			out := filepath.Join(cache, base+".json")
			if _, err := os.Stat(out); err != nil {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				if msg, err := exec.CommandContext(ctx, p4c, "-o", out, src).CombinedOutput(); err != nil {
					_ = os.Remove(out)
					t.Skipf("the compiler refuses it: %v\n%s", err, msg)
				}
			}
			json, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			try(t, json, script)
		})
	}
}
