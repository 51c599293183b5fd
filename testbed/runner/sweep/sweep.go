package sweep

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ethereal-fabric/ethereal/internal/strictyaml"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// Limits of an expanded sweep.
const (
	maxVariants = 10_000
	maxCases    = 1_000_000
)

// Sweep is an expanded sweep file.
type Sweep struct {
	Name        string
	Description string
	Cases       []Case // in the order of the file; no two with the same hash
}

// Case is one run of a sweep.
type Case struct {
	Run     scenario.Run
	Variant map[string]string // varied values by key path
	Hash    string            // of the run; see [scenario.Run.Hash]
}

// sweepFile is a sweep file.
type sweepFile struct {
	Name        string      `yaml:"name" required:"it goes into every result"`
	Description string      `yaml:"description"`
	Parts       []sweepPart `yaml:"parts" required:"at least one, as in - scenario: demo.yaml"`
}

// Keys returns the keys of a sweep file.
func Keys() []string { return strictyaml.KeysOf(sweepFile{}) }

// sweepPart is one scenario of a sweep, with its set and varied keys.
type sweepPart struct {
	Scenario yaml.Node `yaml:"scenario" required:"a scenario file relative to this one"` // the name of a file, or a scenario
	Set      yaml.Node `yaml:"set"`                                                      // key path: value
	Vary     yaml.Node `yaml:"vary"`                                                     // key path: list of values
}

// Load reads a sweep file and all files that it names. Errors about content are those of package strictyaml.
func Load(path string) (*Sweep, error) {
	data, err := strictyaml.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	return Parse(path, data, strictyaml.ReadFile)
}

// Parse reads a sweep from memory. name appears in errors; files are relative to its folder, and read fetches them.
func Parse(name string, data []byte, read func(path string) ([]byte, error)) (*Sweep, error) {
	var f sweepFile
	d := strictyaml.New(name, nil)
	if root := d.Document(data, "a sweep: name, and parts of a scenario each"); root != nil {
		d.Value(root, &f, "")
	}
	if d.OK() && f.Name == "" {
		d.Complain("name", "is empty", "it goes into every result")
	}
	if d.OK() && len(f.Parts) == 0 {
		d.Complain("parts", "is empty", "list at least one, as in - scenario: demo.yaml")
	}
	if !d.OK() {
		return nil, d.Err()
	}
	s := &Sweep{Name: f.Name, Description: f.Description}
	seen := map[string]bool{}
	for i := range f.Parts {
		p := expander{file: name, part: &f.Parts[i], read: read, where: fmt.Sprintf("parts[%d]", i)}
		cases, err := p.expand()
		if err != nil {
			return nil, err
		}
		for _, c := range cases {
			if seen[c.Hash] {
				continue
			}
			seen[c.Hash] = true
			if len(s.Cases) == maxCases {
				d.Complain(p.where, fmt.Sprintf("makes more than %d runs", maxCases), "vary less")
				return nil, d.Err()
			}
			s.Cases = append(s.Cases, c)
		}
	}
	return s, nil
}

// noSuchKey is the remedy for a key path without target.
const noSuchKey = "name a key of the scenario, lists by [NUMBER] or [*]"

// expander expands one part.
type expander struct {
	file  string
	where string
	part  *sweepPart
	read  func(path string) ([]byte, error)
	base  string // the scenario's file, for errors and relative names
}

// keySetting is a key path and a value.
type keySetting struct {
	text  string
	path  []pathStep
	value *yaml.Node
}

// bad returns an error about the value at n, with a key path below key of the part.
func (x *expander) bad(n *yaml.Node, key, problem, remedy string) error {
	return strictyaml.Errors{x.complaint(n, key, problem, remedy)}
}

func (x *expander) complaint(n *yaml.Node, key, problem, remedy string) *strictyaml.Error {
	where := x.where
	if key != "" {
		where = strictyaml.Join(where, key)
	}
	return &strictyaml.Error{
		Pos: strictyaml.Pos{File: x.file, Line: n.Line, Column: n.Column}, Key: where, Problem: problem, Remedy: remedy,
	}
}

func (x *expander) expand() ([]Case, error) {
	root, err := x.scenario()
	if err != nil {
		return nil, err
	}
	fixed, err := x.settings(&x.part.Set, "set")
	if err != nil {
		return nil, err
	}
	axes, err := x.axes()
	if err != nil {
		return nil, err
	}
	for _, s := range fixed {
		if err := assignAt(root, s.path, s.value); err != nil {
			return nil, x.bad(s.value, "set."+s.text, err.Error(), noSuchKey)
		}
	}
	var out []Case
	picked := make([]keySetting, len(axes))
	var pick func(depth int) error
	pick = func(depth int) error {
		if depth < len(axes) {
			for _, picked[depth] = range axes[depth] {
				if err := pick(depth + 1); err != nil {
					return err
				}
			}
			return nil
		}
		cases, err := x.variant(root, picked)
		out = append(out, cases...)
		return err
	}
	return out, pick(0)
}

// scenario returns the part's scenario as YAML.
func (x *expander) scenario() (*yaml.Node, error) {
	n := &x.part.Scenario
	if n.Kind != yaml.ScalarNode {
		x.base = x.file
		return n, nil
	}
	x.base = n.Value
	if !filepath.IsAbs(x.base) {
		x.base = filepath.Join(filepath.Dir(x.file), x.base)
	}
	data, err := x.read(x.base)
	if err != nil {
		return nil, x.bad(n, "scenario", err.Error(), "name a scenario file relative to this one")
	}
	// Errors in the file itself are reported with its own lines.
	if _, err := scenario.Parse(x.base, data, x.read); err != nil {
		return nil, err
	}
	var root yaml.Node
	return &root, strictyaml.Decode(x.base, data, "a scenario", &root)
}

// settings reads a mapping of key paths to values.
func (x *expander) settings(n *yaml.Node, key string) ([]keySetting, error) {
	if n.Kind == 0 {
		return nil, nil
	}
	if n.Kind != yaml.MappingNode {
		return nil, x.bad(n, key, "is not a mapping", "write key paths and values, as in host.rto: 1ms")
	}
	var out []keySetting
	for i := 0; i+1 < len(n.Content); i += 2 {
		path, err := parsePath(n.Content[i].Value)
		if err != nil {
			return nil, x.bad(n.Content[i], key, err.Error(), "write for example host.rto, collectives[*].bytes or failures[1].events[*].detection")
		}
		out = append(out, keySetting{n.Content[i].Value, path, n.Content[i+1]})
	}
	return out, nil
}

// axes returns, for each key path that varies, its settings.
func (x *expander) axes() ([][]keySetting, error) {
	all, err := x.settings(&x.part.Vary, "vary")
	if err != nil {
		return nil, err
	}
	count := 1
	var out [][]keySetting
	for _, s := range all {
		if s.value.Kind != yaml.SequenceNode || len(s.value.Content) == 0 {
			return nil, x.bad(s.value, "vary."+s.text, "is not a list of values", "write for example [1MB, 4MB]")
		}
		if count *= len(s.value.Content); count > maxVariants {
			return nil, x.bad(s.value, "vary", fmt.Sprintf("more than %d combinations", maxVariants), "vary less, or make parts of it")
		}
		var axis []keySetting
		for _, v := range s.value.Content {
			axis = append(axis, keySetting{s.text, s.path, v})
		}
		out = append(out, axis)
	}
	return out, nil
}

// variant returns the cases of one combination.
func (x *expander) variant(root *yaml.Node, picked []keySetting) ([]Case, error) {
	doc := clone(root)
	names := map[string]string{}
	where := []string{"set"}
	for _, s := range picked {
		if err := assignAt(doc, s.path, s.value); err != nil {
			return nil, x.bad(s.value, "vary."+s.text, err.Error(), noSuchKey)
		}
		names[s.text] = valueText(s.value)
		where = append(where, s.text+"="+names[s.text])
	}
	s, err := scenario.FromNode(x.base, doc, x.read)
	if err != nil {
		// The lines are those of two files.
		var es strictyaml.Errors
		if !errors.As(err, &es) {
			return nil, err
		}
		out := make(strictyaml.Errors, len(es))
		for i, e := range es {
			problem := fmt.Sprintf("%s with %s: %s: %s", x.base, strings.Join(where, ", "), e.Key, e.Problem)
			out[i] = x.complaint(&x.part.Scenario, "", problem, e.Remedy)
		}
		return nil, out
	}
	runs, err := s.Expand()
	if err != nil {
		return nil, err
	}
	out := make([]Case, 0, len(runs))
	for _, r := range runs {
		hash, err := r.Hash()
		if err != nil {
			return nil, err
		}
		out = append(out, Case{Run: r, Variant: names, Hash: hash})
	}
	return out, nil
}

// valueText prints a value in one line: a scalar unchanged, the rest as YAML flow.
func valueText(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode {
		return n.Value
	}
	flow := clone(n)
	flow.Style = yaml.FlowStyle
	text, err := yaml.Marshal(flow)
	if err != nil {
		return n.Tag
	}
	return strings.TrimSpace(string(text))
}

// Variants returns the varied key paths, in order of first appearance.
func (s *Sweep) Variants() []string {
	var out []string
	for _, c := range s.Cases {
		for k := range c.Variant {
			if !slices.Contains(out, k) {
				out = append(out, k)
			}
		}
	}
	slices.Sort(out)
	return out
}
