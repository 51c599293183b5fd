//go:build linux

package live_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ethereal-fabric/ethereal/internal/etherealtest"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
)

const trainingDir = "../../training/"

// withTorch returns a Python that has PyTorch and mpi4py.
func withTorch(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("mpirun"); err != nil {
		t.Skip("no mpirun (Debian: openmpi-bin)")
	}
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(python, "-c", "import torch, numpy, mpi4py").Run() == nil {
			return python
		}
	}
	t.Skip("no Python with PyTorch and mpi4py (Debian: python3-torch, python3-mpi4py)")
	return ""
}

// trained is what a run of train.py printed.
type trained struct {
	sha256 string
	steps  []float64 // seconds of all steps but the first, which connects the ranks; sorted
}

// worst returns the seconds of the slowest step.
func (r trained) worst() float64 { return r.steps[len(r.steps)-1] }

// median returns the seconds of the middle step.
func (r trained) median() float64 { return r.steps[len(r.steps)/2] }

func parseTraining(t *testing.T, out []byte) (r trained) {
	t.Helper()
	for line := range bytes.Lines(out) {
		var l struct {
			Event   string
			Step    int
			Seconds float64
			SHA256  string
			Agree   bool
		}
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		switch {
		case l.Event == "step" && l.Step > 1:
			r.steps = append(r.steps, l.Seconds)
		case l.Event == "end" && l.Agree:
			r.sha256 = l.SHA256
		}
	}
	if r.sha256 == "" || len(r.steps) == 0 {
		t.Fatalf("no steps, or no weights that all ranks agree about:\n%s", out)
	}
	slices.Sort(r.steps)
	return r
}

// slower is by how much a step with cuts may be slower than all without, in seconds.
const slower = 2

// TestTraining trains PyTorch networks on eight ranks, with four cuts and without: the weights are the same to the bit.
func TestTraining(t *testing.T) {
	systemtest.Only(t)
	python, bin := withTorch(t), etherealtest.Binary(t)
	spec, err := os.ReadFile(trainingDir + "fabric.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for datapath, jobs := range map[string][]string{"interpreter": {"dense", "experts"}, "kernel": {"dense"}} {
		t.Run(datapath, func(t *testing.T) {
			command, tmp := exploring(t, string(spec), "--datapath", datapath)
			train := func(t *testing.T, job string, words ...string) trained {
				t.Helper()
				words = append(words, "mpirun", python, trainingDir+"train.py", "--job", job)
				c := command(words...)
				var said bytes.Buffer
				c.Stderr = &said
				out, err := c.Output()
				t.Log(said.String())
				if err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				return parseTraining(t, out)
			}
			for _, job := range jobs {
				t.Run(job, func(t *testing.T) {
					without := train(t, job)
					with := train(t, job, "run", trainingDir+"cuts.yaml", "--start-line", `"start"`,
						"--record", filepath.Join(tmp, job+".record"), "--", bin, "live")
					t.Logf("%d steps; median %.3f s, with four cuts %.3f s; slowest %.3f s and %.3f s; weights %s",
						len(with.steps), without.median(), with.median(), without.worst(), with.worst(), with.sha256)
					if with.sha256 != without.sha256 {
						t.Errorf("weights %s, without cuts %s", with.sha256, without.sha256)
					}
					if with.worst() > without.worst()+slower {
						t.Errorf("a step took %.3f s; the slowest without cuts %.3f s", with.worst(), without.worst())
					}
				})
			}
		})
	}
}
