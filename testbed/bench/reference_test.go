//go:build unix

package bench

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// A reference is a case of the reference evaluation: 256 GPUs, 16 ToRs, 16
// spines, 400 Gb/s, 9000-byte packets.
type reference struct {
	name      string
	algorithm string
	bytes     fabric.Bytes
}

func references() []reference {
	return []reference{
		{"direct-4MB", "direct", 4e6},
		{"halving-doubling-64MB", "halving-doubling", 64e6},
	}
}

func (c reference) run(t *testing.T) scenario.Run {
	t.Helper()
	s := scenario.Default()
	s.Name = c.name
	s.Fabric = fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 16, Spines: 16, HostsPerToR: 16}
	s.Collectives = []scenario.Collective{{Kind: "all-reduce", Algorithm: c.algorithm, Bytes: c.bytes}}
	s.Schemes = []scenario.Scheme{{Name: "ethereal"}}
	s.Failures = []scenario.Failure{{Name: "healthy"}}
	s.Seeds = scenario.Seeds{1}
	runs, err := s.Expand()
	if err != nil {
		t.Fatal(err)
	}
	return runs[0]
}

// TestReferenceCases prints what two cases of the reference evaluation cost.
func TestReferenceCases(t *testing.T) {
	if os.Getenv("ETHEREAL_MEASURE") == "" {
		t.Skip("ETHEREAL_MEASURE is not set: this measures, it does not test")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range references() {
		cmd := exec.Command(exe, "-test.run=^TestHelper$", "-test.v")
		cmd.Env = append(os.Environ(), helper+"="+c.name, "GOMAXPROCS=1")
		out, seconds, mb := measure(t, cmd)
		_, line, _ := strings.Cut(out, "hops ")
		line, _, _ = strings.Cut(line, "\n")
		fmt.Printf("%s: %.2f CPU-seconds, %.0f MB, hops %s\n", c.name, seconds, mb, line)
	}
}
