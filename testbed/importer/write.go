package importer

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// Names of the files that are written.
const (
	ScenarioFile = "scenario.yaml"
	WorkloadFile = "workload.yaml"
)

// collectiveYAML is a collective of a scenario.
type collectiveYAML struct {
	Kind      string       `yaml:"kind"`
	Algorithm string       `yaml:"algorithm,omitempty"`
	Bytes     fabric.Bytes `yaml:"bytes,omitempty"`
	File      string       `yaml:"file,omitempty"`
}

type eventYAML struct {
	At        fabric.Time `yaml:"at"`
	Action    string      `yaml:"action"`
	Link      string      `yaml:"link"`
	Detection fabric.Time `yaml:"detection"`
}

type failureYAML struct {
	Name      string      `yaml:"name"`
	Notifiers []string    `yaml:"notifiers,omitempty,flow"`
	Events    []eventYAML `yaml:"events"`
}

// scenarioYAML is a scenario in the order of its file.
type scenarioYAML struct {
	Name        string           `yaml:"name"`
	Fabric      fabric.Spec      `yaml:"fabric"`
	Servers     *Servers         `yaml:"servers,omitempty"`
	Collectives []collectiveYAML `yaml:"collectives"`
	Schemes     []string         `yaml:"schemes,flow"`
	Failures    []failureYAML    `yaml:"failures,omitempty"`
	Deadline    fabric.Time      `yaml:"deadline"`
}

// Scenario returns the scenario as YAML, which names [WorkloadFile] if there is a workload, and notes about what the
// files do not say. If the files have no fabric, it is the smallest fat-tree for the ranks, with 8 GPUs per server for
// GPU workloads.
func (im *Imported) Scenario(name string) (text []byte, notes []string, err error) {
	s := scenarioYAML{Name: name, Servers: im.Servers, Schemes: []string{"ethereal", "ecmp"}}
	if im.Fabric != nil {
		s.Fabric = *im.Fabric
	} else {
		s.Fabric, s.Servers = im.fabricFor()
		notes = append(notes, "the files have no topology: the fabric is one of ours for the ranks; name a topology, or change fabric")
	}
	if im.Ranks > 0 {
		s.Collectives = []collectiveYAML{{Kind: "workload", File: WorkloadFile}}
	} else {
		s.Collectives = []collectiveYAML{{Kind: collective.AllReduce, Algorithm: collective.Ring, Bytes: ncclBytes}}
		notes = append(notes, fmt.Sprintf("the files have no workload: an all-reduce of %v by all hosts", fabric.Bytes(ncclBytes)))
	}
	if len(im.Cuts) > 0 {
		cut := failureYAML{Name: "failed links", Notifiers: []string{"gnmi"}}
		for _, l := range im.Cuts {
			cut.Events = append(cut.Events, eventYAML{Action: "cut", Link: l})
		}
		s.Failures = []failureYAML{cut}
	}
	if s.Deadline, err = im.deadline(s.Fabric); err != nil {
		return nil, nil, err
	}
	var b bytes.Buffer
	b.WriteString(im.originLine())
	for _, n := range append(im.Notes, notes...) {
		fmt.Fprintf(&b, "# %s\n", strings.Map(printable, n))
	}
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(s); err != nil {
		return nil, nil, err
	}
	return b.Bytes(), notes, enc.Close()
}

// originLine returns the first line of the output, which names the input.
func (im *Imported) originLine() string {
	return fmt.Sprintf("# From %s, by ethereal import %s.\n", strings.Map(printable, strings.Join(im.Files, " and ")), im.Kind)
}

// printable keeps a comment in its line.
func printable(r rune) rune {
	if !unicode.IsPrint(r) {
		return ' '
	}
	return r
}

// fabricFor returns a fabric for the workload's ranks.
func (im *Imported) fabricFor() (fabric.Spec, *Servers) {
	gpus := 0
	if im.Kind == "simai" || im.Kind == "aicb" {
		gpus = 8
	}
	link := fabric.LinkSpec{Rate: fabric.DefaultRate, Delay: fabric.DefaultDelay}
	if gpus > 0 && im.Ranks%gpus == 0 && im.Ranks > gpus && im.Ranks/gpus <= fabric.MaxUplinks {
		return *railFabric(gpus, im.Ranks/gpus, link), &Servers{GPUs: gpus, Wiring: "rail", CrossRail: "internal"}
	}
	k := 4
	for k*k*k/4 < im.Ranks {
		k += 2
	}
	return fabric.Spec{Kind: fabric.KindFatTree, K: k}, nil
}

// deadline returns a time in which the workload should be over: ten times what its busiest host needs, and its
// computations.
func (im *Imported) deadline(s fabric.Spec) (fabric.Time, error) {
	f, err := fabric.New(s)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrFile, err)
	}
	rate := float64(f.Spec().HostLink.Rate)
	last, compute := fabric.Time(0), 0.0 // s
	bytes := map[int]float64{}
	for _, fl := range im.Flows {
		last = max(last, fl.At)
		bytes[fl.From] += float64(fl.Bytes)
		bytes[fl.To] += float64(fl.Bytes)
		if fl.After != "" { // flows that wait may be a chain of all ranks
			bytes[-1] += float64(fl.Bytes)
		}
	}
	for _, j := range im.Jobs {
		bytes[0] += 2 * float64(j.Bytes)
		for _, st := range j.Steps {
			compute += st.Compute.Micros() / 1e6
			bytes[0] += 2 * float64(st.Bytes)
		}
	}
	most := 0.0
	for _, b := range bytes {
		most = max(most, b)
	}
	seconds := last.Micros()/1e6 + 2*compute + 10*most*8/rate
	ms := 100.0
	for ms < seconds*1000 {
		ms *= 10
	}
	return fabric.Time(math.Min(ms*float64(fabric.Millisecond), 1e9*float64(fabric.Millisecond))), nil
}

// Workload writes the workload file.
func (im *Imported) Workload(out io.Writer) error {
	w := bufio.NewWriter(out)
	w.WriteString(im.originLine()) //nolint:errcheck // Flush returns it
	if len(im.Flows) > 0 {
		fmt.Fprintln(w, "flows:")
		for _, f := range im.Flows {
			fmt.Fprintf(w, "  - {from: %d, to: %d, bytes: %v", f.From, f.To, f.Bytes)
			for _, k := range []struct {
				key, value string
				given      bool
			}{
				{"at", f.At.String(), f.At > 0}, {"after", f.After, f.After != ""}, {"count", fmt.Sprint(f.Count), f.Count > 0},
				{"sent", f.Sent, f.Sent != ""}, {"received", f.Received, f.Received != ""},
			} {
				if k.given {
					fmt.Fprintf(w, ", %s: %s", k.key, k.value)
				}
			}
			fmt.Fprintln(w, "}")
		}
		return w.Flush()
	}
	fmt.Fprintln(w, "jobs:")
	for _, j := range im.Jobs {
		if len(j.Steps) == 0 {
			fmt.Fprintf(w, "  - {kind: %s, algorithm: %s, bytes: %v, ranks: \"%s\"}\n", j.Kind, j.Algorithm, j.Bytes, j.Ranks)
			continue
		}
		fmt.Fprintf(w, "  - ranks: %s\n    steps:\n", j.Ranks)
		for _, s := range j.Steps {
			fmt.Fprintf(w, "      - %s\n", s)
		}
	}
	return w.Flush()
}

// String returns the step as YAML.
func (s Step) String() string {
	if s.What == "" {
		return fmt.Sprintf("{compute: %v}", s.Compute)
	}
	text := fmt.Sprintf("{%s: %v", s.What, s.Bytes)
	if a := ringAlgorithm(s.What); a != "" {
		text += ", algorithm: " + a
	}
	text += fmt.Sprintf(", group: %d", s.Group)
	if s.Stride > 1 {
		text += fmt.Sprintf(", stride: %d", s.Stride)
	}
	if s.Background {
		text += ", background: true"
	}
	return text + "}"
}
