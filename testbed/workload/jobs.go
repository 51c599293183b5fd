package workload

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/strictyaml"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// jobSpec is a sequence that separate ranks repeat: one collective, or several steps.
type jobSpec struct {
	Kind      string       `yaml:"kind"`
	Algorithm string       `yaml:"algorithm"`
	Bytes     fabric.Bytes `yaml:"bytes"`
	Ranks     string       `yaml:"ranks"`  // "0..7,12"
	At        fabric.Time  `yaml:"at"`     // start time; 0 if absent
	Repeat    int          `yaml:"repeat"` // number of repetitions, one after the other; 1 if absent
	Steps     []jobStep    `yaml:"steps"`  // in place of kind, algorithm and bytes
}

// UnmarshalStrict reads the value from YAML, for [strictyaml.Unmarshaler].
func (j *jobSpec) UnmarshalStrict(d *strictyaml.Decoder, n *yaml.Node, path string) {
	meant := d.Fields(n, j, path)
	if n.Kind != yaml.MappingNode {
		return
	}
	given := func(key string) bool { return d.Given(path+"."+key) || slices.Contains(meant, key) }
	for _, k := range [][2]string{{"kind", "all-reduce"}, {"bytes", "16MB"}, {"algorithm"}} {
		switch key, example := k[0], k[1]; {
		case given("steps") && given(key):
			d.Complain(path+"."+key, "is given beside steps", "write it in a step, as in {all-reduce: 100MB, algorithm: ring}")
		case given("steps") && len(j.Steps) == 0 && key == "kind" && d.OK():
			d.Complain(path+".steps", "is empty", "list at least one, as in [{compute: 2ms}, {all-reduce: 100MB}]")
		case !given("steps") && !given(key) && example != "":
			d.Complain(path+"."+key, "is missing", "add it; for example "+example)
		}
	}
}

// jobStep is a computation, such as {compute: 2ms}, or a collective, such as {all-reduce: 100MB, algorithm: ring}.
type jobStep struct {
	Compute   fabric.Time
	What      string // kind of the collective; empty: a computation
	Bytes     fabric.Bytes
	Algorithm string
	GroupSize int // ranks of a group, each of which carries the collective out; 0: all ranks are one group
	Stride    int // distance of a group's ranks in the job's list; 0: 1
	// Background: later steps of the repetition do not wait for the collective, except others in the background.
	Background bool
}

// keyCompute is the key of a computation.
const keyCompute = "compute"

// UnmarshalStrict reads the value from YAML, for [strictyaml.Unmarshaler].
func (s *jobStep) UnmarshalStrict(d *strictyaml.Decoder, n *yaml.Node, path string) {
	what := append([]string{keyCompute}, collective.Kinds()...)
	seen, _ := d.Keys(n, path, append(what, "algorithm", "group", "stride", "background"), func(key string, n *yaml.Node, path string) {
		switch key {
		case keyCompute:
			d.Value(n, &s.Compute, path)
		case "algorithm":
			d.Value(n, &s.Algorithm, path)
		case "group":
			d.Value(n, &s.GroupSize, path)
		case "stride":
			d.Value(n, &s.Stride, path)
		case "background":
			d.Value(n, &s.Background, path)
		default:
			s.What = key
			d.Value(n, &s.Bytes, path)
		}
	})
	given := 0
	for _, key := range seen {
		if slices.Contains(what, key) {
			given++
		}
	}
	switch {
	case seen == nil || !d.OK():
	case given != 1:
		d.ComplainAt(n, path, fmt.Sprintf("it has %d of %s", given, strings.Join(what, ", ")),
			"write one a step, for example {compute: 2ms} or {all-reduce: 100MB}")
	case s.What == "" && *s != (jobStep{Compute: s.Compute}):
		key := seen[slices.IndexFunc(seen, func(k string) bool { return k != keyCompute })]
		d.Complain(path+"."+key, "belongs to a collective", "remove it")
	case s.What == "" && (s.Compute < 0 || s.Compute > maxCompute):
		d.Complain(path+".compute", fmt.Sprintf("%v is outside 0 to %v", s.Compute, maxCompute), "write for example 2ms")
	}
}

// maxCompute is the longest computation of a job's step.
const maxCompute = 1000 * fabric.Second

// String returns the step for display: "compute 2ms".
func (s jobStep) String() string {
	switch {
	case s.What == "":
		return keyCompute + " " + s.Compute.String()
	case s.Algorithm != "":
		return s.What + "/" + s.Algorithm + " " + s.Bytes.String()
	}
	return s.What + " " + s.Bytes.String()
}

// ranks returns the number of ranks that the jobs name.
func (f workloadFile) ranks() int {
	most := -1
	for _, j := range f.Jobs {
		group, err := parseRanks(j.Ranks, collective.MaxRanks)
		if j.Ranks == "" || err != nil {
			continue // all existing ranks, or an error reported later
		}
		most = max(most, slices.Max(group))
	}
	return most + 1
}

// add adds the job of a number to the program. Jobs do not wait for each other.
func (j jobSpec) add(p *Program, number int, seed uint64, path string, d *strictyaml.Decoder) {
	group, err := parseRanks(j.Ranks, len(p.Ranks))
	if err != nil {
		problem, remedy, _ := strings.Cut(err.Error(), "; ")
		d.Complain(path+".ranks", problem, remedy)
	}
	if j.Repeat < 0 || j.Repeat > 10_000 {
		d.Complain(path+".repeat", fmt.Sprintf("%d is outside 1 to 10000", j.Repeat), "write for example 10")
		return
	}
	steps, repeat, wrong := j.Steps, max(j.Repeat, 1), err != nil
	for i, s := range steps {
		step := fmt.Sprintf("%s.steps[%d]", path, i)
		if s.What != "" && len(group) > 0 && !s.divides(len(group)) {
			d.Complain(step+".group", fmt.Sprintf("%d ranks are no whole number of groups of %d with stride %d", len(group), s.GroupSize, max(s.Stride, 1)),
				"write a group of 2 or more, and of the ranks a whole number of group times stride")
			wrong = true
			continue
		}
		wrong = s.complain(d, step, cmp.Or(s.GroupSize, len(group)), s.What) || wrong
	}
	if len(steps) == 0 {
		steps = []jobStep{{What: j.Kind, Algorithm: j.Algorithm, Bytes: j.Bytes}}
		wrong = steps[0].complain(d, path, len(group), "bytes") || wrong
	}
	if wrong {
		return
	}
	if room := int64(maxOps - p.ops()); room < 1 || atMost(room, repeat, len(steps), len(group)) < 0 {
		d.Complain(path+".repeat", fmt.Sprintf("%d times %d steps of %d ranks are, with the jobs before, more than %d operations",
			repeat, len(steps), len(group), maxOps), "use fewer")
		return
	}
	last := make(map[int][]int, len(group))   // of each rank's operations
	behind := make(map[int][]int, len(group)) // of those in the background
	add := func(r int, op Op, background bool) {
		op.After = last[r]
		if background {
			op.After = slices.Concat(op.After, behind[r])
		}
		p.Ranks[r] = append(p.Ranks[r], op)
		if at := []int{len(p.Ranks[r]) - 1}; background {
			behind[r] = at
		} else {
			last[r] = at
		}
	}
	for _, r := range group {
		if j.At > 0 {
			add(r, Op{Kind: Compute, Duration: j.At}, false)
		}
	}
	for n := range repeat {
		for _, s := range steps {
			spec := collective.Spec{Kind: s.What, Bytes: int64(s.Bytes), Ranks: len(group)}
			p.Parts = append(p.Parts, Part{Job: number, Step: n + 1, Name: s.String(), BusBytes: spec.BusBytes()})
			op := Op{Kind: Compute, Duration: s.Compute, Part: len(p.Parts)}
			if s.What != "" {
				op = Op{Kind: Collective, What: s.What, Algorithm: s.Algorithm, Bytes: int64(s.Bytes), Group: group, Part: len(p.Parts)}
			}
			if s.What == collective.Permutation {
				p.Random, op.Seed = true, seed
			}
			groups := s.groups(group)
			for i, r := range group {
				if op.Kind == Collective {
					op.Group = groups[s.groupOf(i)]
				}
				add(r, op, s.Background)
			}
		}
		for _, r := range group {
			last[r], behind[r] = slices.Concat(last[r], behind[r]), nil
		}
	}
}

// ops returns the number of operations.
func (p *Program) ops() (n int) {
	for _, r := range p.Ranks {
		n += len(r)
	}
	return n
}

// divides reports whether so many ranks are a whole number of groups.
func (s jobStep) divides(ranks int) bool {
	if s.GroupSize == 0 {
		return s.Stride == 0
	}
	return s.GroupSize > 1 && s.Stride >= 0 && s.GroupSize <= ranks && s.Stride <= ranks && ranks%(s.GroupSize*max(s.Stride, 1)) == 0
}

// groupOf returns the number of the group of a rank by its place in the job's list.
func (s jobStep) groupOf(i int) int {
	if s.GroupSize == 0 {
		return 0
	}
	stride := max(s.Stride, 1)
	return i/(s.GroupSize*stride)*stride + i%stride
}

// groups returns the ranks of each group.
func (s jobStep) groups(ranks []int) [][]int {
	if s.GroupSize == 0 {
		return [][]int{ranks}
	}
	out := make([][]int, len(ranks)/s.GroupSize)
	for i, r := range ranks {
		out[s.groupOf(i)] = append(out[s.groupOf(i)], r)
	}
	return out
}

// complain reports an error of a collective among that many ranks. size is the key of its bytes.
func (s jobStep) complain(d *strictyaml.Decoder, path string, ranks int, size string) (wrong bool) {
	if size == "" || ranks == 0 {
		return false // a computation, or ranks that were reported
	}
	spec := collective.Spec{Kind: s.What, Algorithm: s.Algorithm, Bytes: int64(s.Bytes), Ranks: ranks}
	err := spec.Validate()
	if err == nil {
		return false
	}
	problem, remedy, _ := strings.Cut(strings.TrimPrefix(err.Error(), collective.ErrSpec.Error()+": "), "; ")
	key := path
	whole, _, _ := strings.Cut(path, ".steps[")
	for k, at := range map[string]string{
		"kind": path + ".kind", "algorithm": path + ".algorithm", "bytes": path + "." + size, "ranks": whole + ".ranks",
	} {
		if strings.HasPrefix(problem, k+" ") || strings.Contains(problem, " has no "+k) {
			key = at
		}
	}
	d.Complain(key, problem, remedy)
	return true
}

// parseRanks reads "0..7,12", or "0..30/2" for every second one. Empty means all.
func parseRanks(text string, ranks int) ([]int, error) {
	if text == "" {
		text = fmt.Sprintf("0..%d", ranks-1)
	}
	seen := map[int]bool{}
	var out []int
	for part := range strings.SplitSeq(text, ",") {
		span, by, stepped := strings.Cut(strings.TrimSpace(part), "/")
		from, to, isRange := strings.Cut(span, "..")
		if !isRange {
			to = from
		}
		step := 1
		a, err := strconv.Atoi(strings.TrimSpace(from))
		b, err2 := strconv.Atoi(strings.TrimSpace(to))
		if stepped && err == nil {
			step, err = strconv.Atoi(strings.TrimSpace(by))
		}
		if err != nil || err2 != nil || a < 0 || b < a || step < 1 {
			return nil, fmt.Errorf("%q is not a list of ranks; write for example 0..7,12 or 0..30/2", part)
		}
		if b >= ranks {
			return nil, fmt.Errorf("rank %d is not there; the fabric has 0 to %d", b, ranks-1)
		}
		for r := a; r <= b; r += min(step, b-a+1) { // a larger step could overflow
			if seen[r] {
				return nil, fmt.Errorf("rank %d is in the list twice", r)
			}
			seen[r] = true
			out = append(out, r)
		}
	}
	return out, nil
}
