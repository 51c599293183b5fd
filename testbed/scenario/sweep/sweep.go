package sweep

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// ErrSweep is wrapped by every error about a sweep's content.
var ErrSweep = errors.New("sweep: bad sweep")

// Limits on what is read and on what it multiplies out to.
const (
	maxBytes    = 1 << 20
	maxVariants = 10_000
	maxCases    = 1_000_000
)

// Sweep is what a file asks for, multiplied out.
type Sweep struct {
	Name        string
	Description string
	Cases       []Case // in the order of the file; no two of one hash
}

// Case is one run of a sweep.
type Case struct {
	Run     scenario.Run
	Variant map[string]string // what the sweep varied: key path to value
	Hash    string            // of the run; see [scenario.Run.Hash]
}

// file is a sweep file.
type file struct {
	Name        string `yaml:"name"`
	Description string `yaml:"description"`
	Parts       []part `yaml:"parts"`
}

// part is one scenario of a sweep, with what is set in it and what varies.
type part struct {
	Scenario yaml.Node `yaml:"scenario"` // the name of a file, or a scenario
	Set      yaml.Node `yaml:"set"`      // key path: value
	Vary     yaml.Node `yaml:"vary"`     // key path: list of values
}

// Load reads a sweep file and everything that it names.
func Load(path string) (*Sweep, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data, readFile)
}

// Parse reads a sweep from memory. name goes into messages, and files are named
// relative to its folder; read fetches them. Errors wrap [ErrSweep], or are
// those of package scenario about a scenario file.
func Parse(name string, data []byte, read func(path string) ([]byte, error)) (*Sweep, error) {
	var f file
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&f); err != nil {
		return nil, fmt.Errorf("%w: %s: %w; a sweep has name, description and parts, a part scenario, set and vary", ErrSweep, name, err)
	}
	var whole yaml.Node
	if err := yaml.Unmarshal(data, &whole); err != nil || !bounded(&whole) {
		return nil, fmt.Errorf("%w: %s: its aliases expand to more than %d values; write less out of them", ErrSweep, name, maxValues)
	}
	if f.Name == "" {
		return nil, fmt.Errorf("%w: %s: name is missing; it goes into every result", ErrSweep, name)
	}
	if len(f.Parts) == 0 {
		return nil, fmt.Errorf("%w: %s: parts is empty; list at least one, as in - scenario: demo.yaml", ErrSweep, name)
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
				return nil, fmt.Errorf("%w: %s: more than %d runs; vary less", ErrSweep, name, maxCases)
			}
			s.Cases = append(s.Cases, c)
		}
	}
	return s, nil
}

// expander multiplies out one part.
type expander struct {
	file  string
	where string
	part  *part
	read  func(path string) ([]byte, error)
	base  string // the scenario's file, for messages and relative names
}

// setting is a key path and a value.
type setting struct {
	text  string
	path  []step
	value *yaml.Node
}

func (x *expander) bad(n *yaml.Node, format string, args ...any) error {
	line := ""
	if n != nil && n.Line > 0 {
		line = fmt.Sprintf(":%d", n.Line)
	}
	return fmt.Errorf("%w: %s%s: %s: %s", ErrSweep, x.file, line, x.where, fmt.Sprintf(format, args...))
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
		if err := assign(root, s.path, s.value); err != nil {
			return nil, x.bad(s.value, "set.%s: %v", s.text, err)
		}
	}
	var out []Case
	picked := make([]setting, len(axes))
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
	switch {
	case n.Kind == 0:
		return nil, x.bad(nil, "scenario is missing; name a scenario file relative to this one")
	case n.Kind != yaml.ScalarNode:
		x.base = x.file
		return clone(n), nil
	}
	x.base = n.Value
	if !filepath.IsAbs(x.base) {
		x.base = filepath.Join(filepath.Dir(x.file), x.base)
	}
	data, err := x.read(x.base)
	if err != nil {
		return nil, fmt.Errorf("%w: %s:%d: %s: scenario: %w", ErrSweep, x.file, n.Line, x.where, err)
	}
	// What is wrong with the file itself is said with its own lines.
	if _, err := scenario.Parse(x.base, data, x.read); err != nil {
		return nil, err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil || len(doc.Content) != 1 {
		return nil, x.bad(n, "scenario: %s is not one YAML document: %v", x.base, err)
	}
	if !bounded(&doc) {
		return nil, x.bad(n, "scenario: the aliases of %s expand to more than %d values", x.base, maxValues)
	}
	return clone(doc.Content[0]), nil
}

// settings reads a mapping of key paths to values.
func (x *expander) settings(n *yaml.Node, key string) ([]setting, error) {
	n = target(n)
	if n.Kind == 0 {
		return nil, nil
	}
	if n.Kind != yaml.MappingNode {
		return nil, x.bad(n, "%s is not a mapping; write key paths and values, as in host.rto: 1ms", key)
	}
	var out []setting
	for i := 0; i+1 < len(n.Content); i += 2 {
		path, err := parsePath(n.Content[i].Value)
		if err != nil {
			return nil, x.bad(n.Content[i], "%s: %v", key, err)
		}
		out = append(out, setting{n.Content[i].Value, path, n.Content[i+1]})
	}
	return out, nil
}

// axes returns, for each key path that varies, its settings.
func (x *expander) axes() ([][]setting, error) {
	all, err := x.settings(&x.part.Vary, "vary")
	if err != nil {
		return nil, err
	}
	count := 1
	var out [][]setting
	for _, s := range all {
		s.value = target(s.value)
		if s.value.Kind != yaml.SequenceNode || len(s.value.Content) == 0 {
			return nil, x.bad(s.value, "vary.%s is not a list of values; write for example [1MB, 4MB]", s.text)
		}
		if count *= len(s.value.Content); count > maxVariants {
			return nil, x.bad(s.value, "vary: more than %d combinations; vary less, or make parts of it", maxVariants)
		}
		var axis []setting
		for _, v := range s.value.Content {
			axis = append(axis, setting{s.text, s.path, v})
		}
		out = append(out, axis)
	}
	return out, nil
}

// variant returns the cases of one combination.
func (x *expander) variant(root *yaml.Node, picked []setting) ([]Case, error) {
	doc := clone(root)
	names := map[string]string{}
	var where []string
	for _, s := range picked {
		if err := assign(doc, s.path, s.value); err != nil {
			return nil, x.bad(s.value, "vary.%s: %v", s.text, err)
		}
		names[s.text] = valueText(s.value)
		where = append(where, s.text+"="+names[s.text])
	}
	data, err := yaml.Marshal(doc)
	if err != nil {
		return nil, x.bad(nil, "%v", err)
	}
	s, err := scenario.Parse(x.base, data, x.read)
	if err != nil {
		// The lines are those of a text nobody has seen.
		var es scenario.Errors
		if !errors.As(err, &es) {
			return nil, err
		}
		var texts []string
		for _, e := range es {
			texts = append(texts, fmt.Sprintf("%s: %s; %s", e.Key, e.Problem, e.Remedy))
		}
		return nil, x.bad(nil, "%s with %s: %s", x.base, strings.Join(append([]string{"set"}, where...), ", "), strings.Join(texts, "\n"))
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

// valueText prints a value in one line: a scalar as it stands, the rest as YAML
// flow.
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

// Variants returns the key paths that vary, in order of first appearance.
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

// readFile reads a regular file of no more than maxBytes.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("sweep: %w", err)
	case !info.Mode().IsRegular() || info.Size() > maxBytes:
		return nil, fmt.Errorf("%w: %s is not a regular file of at most %d bytes; name a YAML file", ErrSweep, path, maxBytes)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	return data, nil
}
