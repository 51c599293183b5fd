package dragonfly

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/dragonfly"
	"github.com/ethereal-fabric/ethereal/fabric/strictyaml"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// Experiment is a file: each failure with each traffic, scheme and seed is one run.
type Experiment struct {
	Name        string            `yaml:"name" required:"the name goes into every result"`
	Description string            `yaml:"description"`
	Fabric      dragonfly.Spec    `yaml:"fabric" required:"for example fabric: {p: 2, a: 4, h: 2}"`
	Traffic     []Traffic         `yaml:"traffic" required:"for example a list with - {kind: permutation, bytes: 4MB}"`
	Schemes     []scenario.Scheme `yaml:"schemes" required:"for example schemes: [minimal, valiant, ethereal]"`
	Failures    []Failure         `yaml:"failures"`
	Seeds       scenario.Seeds    `yaml:"seeds"`
}

// Traffic is a collective, as a scenario has it.
type Traffic struct {
	Kind      string       `yaml:"kind" required:"for example permutation"`
	Algorithm string       `yaml:"algorithm"`
	Bytes     fabric.Bytes `yaml:"bytes" required:"for example 4MB"`
	Shift     int          `yaml:"shift"` // permutation: in ranks
	Groups    int          `yaml:"shift_groups"`
	Ranks     int          `yaml:"ranks"` // the first so many hosts; 0: all
}

// Runs returns how many runs the experiment has.
func (e *Experiment) Runs() int {
	return len(e.Failures) * len(e.Traffic) * len(e.Seeds) * len(e.Schemes)
}

// Failure is links that are cut before anything is sent.
type Failure struct {
	Name  string   `yaml:"name" required:"the name goes into every result"`
	Links []string `yaml:"links"`
}

// Name returns what the traffic is called in results.
func (t Traffic) Name() string {
	name := t.Kind
	if t.Algorithm != "" {
		name += "/" + t.Algorithm
	}
	switch {
	case t.Groups != 0:
		name += fmt.Sprintf(" by %d groups", t.Groups)
	case t.Shift != 0:
		name += fmt.Sprintf(" by %d", t.Shift)
	}
	return name + " " + t.Bytes.String()
}

// spec returns the traffic as package collective takes it.
func (t Traffic) spec(f *dragonfly.Fabric, seed uint64) collective.Spec {
	ranks := t.Ranks
	if ranks == 0 {
		ranks = f.Hosts()
	}
	shift := t.Shift
	if t.Groups != 0 {
		shift = t.Groups * f.Hosts() / f.Groups()
	}
	return collective.Spec{
		Kind: t.Kind, Algorithm: t.Algorithm, Ranks: ranks, Bytes: int64(t.Bytes), Shift: shift, Seed: seed,
	}
}

// Load reads and checks a file.
func Load(path string) (*Experiment, error) {
	data, err := strictyaml.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("dragonfly: %w", err)
	}
	return Parse(path, data)
}

// Parse reads and checks a file from memory. name goes into messages.
func Parse(name string, data []byte) (*Experiment, error) {
	e := &Experiment{Failures: []Failure{{Name: "healthy"}}, Seeds: scenario.Seeds{1}}
	d := strictyaml.New(name, nil)
	if root := d.Document(data, "a dragonfly experiment"); root != nil {
		d.Value(root, e, "")
	}
	if d.OK() {
		e.check(d.Complain)
	}
	return e, d.Err()
}

// check says what is wrong with the values of a file.
func (e *Experiment) check(bad func(path, problem, remedy string)) {
	f, err := dragonfly.New(e.Fabric)
	if err != nil {
		key, problem, _ := strings.Cut(strings.TrimPrefix(err.Error(), dragonfly.ErrSpec.Error()+": "), ": ")
		bad("fabric."+key, problem, "correct it")
		return
	}
	for _, list := range []struct {
		key   string
		empty bool
	}{
		{"traffic", len(e.Traffic) == 0}, {"schemes", len(e.Schemes) == 0}, {"failures", len(e.Failures) == 0},
		{"seeds", len(e.Seeds) == 0},
	} {
		if list.empty {
			bad(list.key, "is empty", "list at least one")
		}
	}
	for i, t := range e.Traffic {
		path := fmt.Sprintf("traffic[%d]", i)
		if t.Ranks < 0 || t.Ranks > f.Hosts() {
			bad(path+".ranks", fmt.Sprintf("%d is outside 2 to %d, the hosts there are", t.Ranks, f.Hosts()), "correct it")
			continue
		}
		other := t.Ranks != 0 || t.Shift != 0 || t.Kind != collective.Permutation
		if t.Groups < 0 || t.Groups >= f.Groups() || t.Groups != 0 && other {
			bad(path+".shift_groups", fmt.Sprintf("%d is no number of groups to shift a permutation of all hosts by", t.Groups),
				fmt.Sprintf("write 1 to %d beside kind: permutation, without shift and ranks", f.Groups()-1))
			continue
		}
		if err := t.spec(f, 1).Validate(); err != nil {
			problem, remedy, _ := strings.Cut(strings.TrimPrefix(err.Error(), collective.ErrSpec.Error()+": "), "; ")
			bad(path, problem, remedy)
		} else if t.Bytes > endpoint.MaxMessage {
			bad(path+".bytes", fmt.Sprintf("%v is more than a message can have", t.Bytes), "write for example 4MB")
		}
	}
	for i, s := range e.Schemes {
		if _, err := newScheme(s); err != nil {
			problem, remedy, _ := strings.Cut(err.Error(), "; ")
			bad(fmt.Sprintf("schemes[%d]", i), problem, remedy)
		}
	}
	for i, c := range e.Failures {
		for k, name := range c.Links {
			path := fmt.Sprintf("failures[%d].links[%d]", i, k)
			if l, err := f.LinkByName(name); err != nil {
				problem, remedy, _ := strings.Cut(err.Error(), "; ")
				bad(path, problem, remedy)
			} else if l < f.Hosts() {
				bad(path, fmt.Sprintf("%s is a host's only link", name), "name a link between routers")
			}
		}
		if slices.ContainsFunc(e.Failures[:i], func(o Failure) bool { return o.Name == c.Name }) {
			bad(fmt.Sprintf("failures[%d].name", i), fmt.Sprintf("%q is there already", c.Name), "write another name")
		}
	}
}
