package stf_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/p4src"
	"github.com/ethereal-fabric/ethereal/testbed/p4switch/program"
	"github.com/ethereal-fabric/ethereal/testbed/p4switch/stf"
)

// chipCPU is the chip's port to the CPU as lines of a script name it: v1model's is another.
var chipCPU = regexp.MustCompile(`(?m)^(packet|expect) 320 `)

// TestChip plays what P4Testgen makes of the chips' program by the chip's semantics, packets, entries and what comes out, on
// v1model's program: ETHEREAL_CHIP_TESTS names folders of its scripts, with colons between. docs/tofino.md has the command.
func TestChip(t *testing.T) {
	dirs := os.Getenv("ETHEREAL_CHIP_TESTS")
	if dirs == "" {
		t.Skip("ETHEREAL_CHIP_TESTS names no folder of P4Testgen's scripts: docs/tofino.md")
	}
	prog, err := program.Load(p4src.V1ModelJSON())
	if err != nil {
		t.Fatal(err)
	}
	agreed, out, why := 0, 0, map[string]int{}
	for dir := range strings.SplitSeq(dirs, ":") {
		scripts, err := filepath.Glob(filepath.Join(dir, "*.stf"))
		if err != nil || len(scripts) == 0 {
			t.Fatalf("no scripts in %s: %v", dir, err)
		}
		for _, script := range scripts {
			text, err := os.ReadFile(script)
			if err != nil {
				t.Fatal(err)
			}
			text = chipCPU.ReplaceAll(text, fmt.Appendf(nil, "${1} %d ", p4src.CPUPort))
			s, err := stf.Parse(filepath.Base(script), text)
			if err != nil {
				t.Fatalf("%s: %v", script, err)
			}
			rep, err := s.Run(prog)
			if err != nil {
				t.Fatalf("%s: %v", script, err)
			}
			if rep.Received > rep.Expected {
				rep.Failures = append(rep.Failures, fmt.Sprintf("%d packets came out, of %d expected", rep.Received, rep.Expected))
			}
			if rep.Passed() {
				agreed++
				out += rep.Expected
				continue
			}
			why["unexplained"]++
			if why["unexplained"] < 12 {
				t.Errorf("%s: %s", script, strings.Join(rep.Failures, "\n"))
			}
		}
	}
	t.Logf("%d agree, of which %d send a packet on", agreed, out)
	for _, w := range slices.Sorted(maps.Keys(why)) {
		t.Logf("%d differ: %s", why[w], w)
	}
}
