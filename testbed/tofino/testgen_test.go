package tofino

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/p4src"
	"github.com/ethereal-fabric/ethereal/p4switch/program"
	"github.com/ethereal-fabric/ethereal/p4switch/stf"
)

// chipCPU is the chip's port to the CPU as lines of a script name it: v1model's is another.
var chipCPU = regexp.MustCompile(`(?m)^(packet|expect) 320 `)

// playScripts plays what P4Testgen makes of the chips' program: run carries out a script, with v1model's program to
// name tables by. ETHEREAL_CHIP_TESTS names folders of scripts, with colons between; without it the test is skipped.
//
// To make scripts, build p4c's P4Testgen with ENABLE_TEST_TOOLS (it needs z3), and run it on a copy of p4src. The sed
// sets all ports alive, because P4Testgen does not know register contents:
//
//	cp -r p4src build/chip && cd build/chip
//	sed -i 's/meta.epoch = read_port_down.execute(meta.port);/meta.epoch = 0;/' tna/ingress.p4
//	p4testgen --target tofino --arch tna --std p4-16 --test-backend STF --max-tests 300 --seed 1 \
//	  --path-selection RANDOM_BACKTRACK --track-coverage STATEMENTS --port-ranges 1:60 --packet-size-range 336:2400 \
//	  --out-dir tests -I P4C/backends/tofino/bf-p4c/p4include -I P4C/p4include -D__TARGET_TOFINO__=1 tna/ethereal.p4
func playScripts(t *testing.T, run func(*stf.Script, *program.Program) (*stf.Report, error)) {
	t.Helper()
	dirs := os.Getenv("ETHEREAL_CHIP_TESTS")
	if dirs == "" {
		t.Skip("ETHEREAL_CHIP_TESTS names no folder of P4Testgen's scripts: docs/tofino.md")
	}
	prog, err := program.Load(p4src.V1ModelJSON())
	if err != nil {
		t.Fatal(err)
	}
	agreed, out, differ := 0, 0, 0
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
			rep, err := run(s, prog)
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
			if differ++; differ < 12 {
				t.Errorf("%s: %s", script, strings.Join(rep.Failures, "\n"))
			}
		}
	}
	t.Logf("%d agree, of which %d send a packet on; %d differ", agreed, out, differ)
}

// TestScriptsOnV1Model plays what P4Testgen makes of the chips' program by the chip's semantics, packets, entries and
// what comes out, on v1model's program. docs/tofino.md has the command.
func TestScriptsOnV1Model(t *testing.T) {
	playScripts(t, func(s *stf.Script, prog *program.Program) (*stf.Report, error) { return s.Run(prog) })
}
