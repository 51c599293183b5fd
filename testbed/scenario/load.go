package scenario

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ethereal-fabric/ethereal/internal/strictyaml"
)

// Load reads a scenario file. The error is [strictyaml.Errors] for errors in the file's content, and the system's
// if the file cannot be read.
func Load(path string) (*Scenario, error) {
	data, err := strictyaml.ReadFile(path)
	if err != nil {
		return nil, withRemedy(err, "name a scenario file, for example testbed/scenarios/demo.yaml")
	}
	return Parse(path, data, strictyaml.ReadFile)
}

// Parse reads a scenario from memory. name appears in errors; file references are relative to its folder. read
// fetches a referenced file; if it is nil, references are refused.
func Parse(name string, data []byte, read func(path string) ([]byte, error)) (*Scenario, error) {
	d := strictyaml.New(name, read)
	return decode(d, d.Document(data, "a scenario"))
}

// FromNode reads a scenario from parsed YAML, as [Parse] does.
func FromNode(name string, root *yaml.Node, read func(path string) ([]byte, error)) (*Scenario, error) {
	return decode(strictyaml.New(name, read), root)
}

func decode(d *strictyaml.Decoder, root *yaml.Node) (*Scenario, error) {
	s := presetOf(root)
	complain := d.Complain
	if root != nil {
		d.Value(root, &s, "")
		complain = s.readSteps(d)
	}
	// Errors about unreadable values were reported already.
	if d.OK() {
		s.check(complain)
	}
	if err := d.Err(); err != nil {
		return nil, err
	}
	return &s, nil
}

// readSteps converts steps to a failure case. It returns a complain function that refers to steps if the file has
// steps.
func (s *Scenario) readSteps(d *strictyaml.Decoder) reportError {
	if len(s.Steps) == 0 {
		if d.Given("notifiers") {
			d.Complain("notifiers", "is given without steps", "add steps, or write the notifiers of each failure case there")
		}
		return d.Complain
	}
	if d.Given("failures") {
		d.Complain("failures", "is given beside steps", "keep one: steps are the events of the only case")
	}
	c := Failure{Name: s.Name, Events: s.Steps, Notifiers: s.Notifiers}
	if len(c.Notifiers) == 0 {
		c.Notifiers = []Notifier{NotifyAll}
	}
	s.Failures, s.Steps, s.Notifiers = []Failure{c}, nil, nil
	return func(path, problem, remedy string) {
		if rest, ok := strings.CutPrefix(path, "failures[0].events"); ok {
			path = "steps" + rest
		} else if rest, ok := strings.CutPrefix(path, "failures[0]."); ok {
			path = rest
		}
		d.Complain(path, problem, remedy)
	}
}

// withRemedy adds a remedy to an error about a missing file.
func withRemedy(err error, remedy string) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("scenario: %w; %s", err, remedy)
	}
	return fmt.Errorf("scenario: %w", err)
}

// UnmarshalStrict reads the value from YAML, for [strictyaml.Unmarshaler]. It is a name, or a mapping with parameters.
func (s *Scheme) UnmarshalStrict(d *strictyaml.Decoder, n *yaml.Node, path string) {
	if n.Kind == yaml.ScalarNode {
		s.Name = n.Value
		return
	}
	d.Fields(n, s, path)
}

// UnmarshalStrict reads the value from YAML, for [strictyaml.Unmarshaler]. It is a number, a range, or a list of
// either.
func (s *Seeds) UnmarshalStrict(d *strictyaml.Decoder, n *yaml.Node, path string) {
	*s = nil
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		items = n.Content
	}
	for _, item := range items {
		if !d.Scalar(item, path, "a seed") {
			return
		}
		more, err := ParseSeeds(item.Value)
		if err != nil {
			d.ComplainAt(item, path, err.Error(), "write a number, a list such as [1, 2, 3] or a range such as 1..10")
			return
		}
		*s = append(*s, more...)
	}
}

// maxSeeds is the largest number of seeds in a range.
const maxSeeds = 10_000

// ParseSeeds reads seeds in the form of flags: "7", "1..10", or several of these separated by commas.
func ParseSeeds(text string) (Seeds, error) {
	var out Seeds
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		from, to, isRange := strings.Cut(part, "..")
		if !isRange {
			to = from
		}
		a, err := strconv.ParseUint(strings.TrimSpace(from), 10, 64)
		b, err2 := strconv.ParseUint(strings.TrimSpace(to), 10, 64)
		if err != nil || err2 != nil {
			return nil, fmt.Errorf("%q is not a seed", part)
		}
		if a == 0 {
			return nil, fmt.Errorf("%q: seeds begin at 1", part)
		}
		if b < a || b-a >= maxSeeds {
			return nil, fmt.Errorf("%q is not a range of 1 to %d seeds", part, maxSeeds)
		}
		for i := range b - a + 1 {
			out = append(out, a+i)
		}
	}
	return out, nil
}
