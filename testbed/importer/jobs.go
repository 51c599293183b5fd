package importer

import (
	"fmt"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/transport"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// Job is a job of a workload file.
type Job struct {
	Kind      string       `yaml:"kind,omitempty"`
	Algorithm string       `yaml:"algorithm,omitempty"`
	Bytes     fabric.Bytes `yaml:"bytes,omitempty"`
	Ranks     string       `yaml:"ranks,omitempty"`
	Steps     []Step       `yaml:"steps,omitempty"`
}

// Step is a step of a job: a computation, or a collective of each group of its ranks.
type Step struct {
	Compute       fabric.Time
	What          string // kind of the collective; empty: a computation
	Bytes         fabric.Bytes
	Group, Stride int // number of ranks of a group, and their distance
	Background    bool
}

// hasMessages reports whether ranks send messages in some step.
func hasMessages(steps []Step) bool {
	return slices.ContainsFunc(steps, func(s Step) bool { return s.What != "" })
}

// maxSteps is the largest number of collectives of a file: one of 1 PiB is hundreds of thousands.
const maxSteps = 1 << 20

// ringAlgorithm returns the algorithm of a kind: NCCL's rings, or the only one.
func ringAlgorithm(kind string) string {
	for _, a := range collective.Algorithms(kind) {
		if a == collective.Ring {
			return a
		}
	}
	return ""
}

// step adds a collective. A group of one rank has nothing to exchange. Collectives that have fewer bytes than ranks get
// as many, and those with messages above 2 GiB are several.
func (f *inputFile) step(line int, steps []Step, s Step) ([]Step, error) {
	if s.Group < 2 {
		return steps, nil
	}
	if least := fabric.Bytes(s.Group); s.Bytes < least {
		f.countNotCarried(line, "collectives of fewer bytes than ranks have one byte a rank", fmt.Sprint(s.What, " of ", s.Bytes))
		s.Bytes = least
	}
	parts := (s.Bytes/fabric.Bytes(s.Group))/transport.MaxMessage + 1
	if parts > 1 {
		f.countNotCarried(line, "collectives with messages of more than 2 GiB are several", fmt.Sprint(s.What, " of ", s.Bytes))
	}
	if f.steps += int(parts); f.steps > maxSteps {
		return nil, f.fail(line, "there are more than %d collectives; import fewer lines, or smaller sizes", maxSteps)
	}
	s.Bytes /= parts
	for range parts {
		steps = append(steps, s)
	}
	return steps, nil
}
