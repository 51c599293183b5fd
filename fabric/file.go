package fabric

import (
	"errors"
	"fmt"
	"io/fs"

	"go.yaml.in/yaml/v3"

	"github.com/ethereal-fabric/ethereal/internal/strictyaml"
)

// LoadSpec reads a fabric file: the content of a scenario's key "fabric", in a separate file. Errors of content are
// [strictyaml.Errors].
func LoadSpec(path string) (Spec, error) {
	data, err := strictyaml.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w; name a fabric file; `ethereal topo > FILE` writes one", err)
	}
	if err != nil {
		return Spec{}, fmt.Errorf("fabric: %w", err)
	}
	return ParseSpec(path, data)
}

// ParseSpec reads a fabric file from memory. name appears in errors.
func ParseSpec(name string, data []byte) (Spec, error) {
	var s Spec
	d := strictyaml.New(name, nil)
	if root := d.Document(data, "a fabric"); root != nil {
		d.Value(root, &s, "")
	}
	if d.OK() {
		s.Complain("", d.Complain)
	}
	return s, d.Err()
}

// Complain calls say for each error of [Spec.Validate] in s, which is at a key path of a file.
func (s Spec) Complain(path string, say func(path, problem, remedy string)) {
	if e := s.check(); e != nil {
		say(strictyaml.Join(path, e.Key), e.Problem, e.Remedy)
	}
}

// UnmarshalStrict reads the value from YAML, for [strictyaml.Unmarshaler]. A fabric is a mapping, or the name of a
// file that contains one.
func (s *Spec) UnmarshalStrict(d *strictyaml.Decoder, n *yaml.Node, path string) {
	if n.Kind == yaml.ScalarNode && path != "" {
		d.Include(n, s, path, "a fabric", "name a fabric file relative to this one, or write the fabric here as a mapping with kind")
		return
	}
	d.Fields(n, s, path)
}

// UnmarshalStrict reads the value from YAML, for [strictyaml.Unmarshaler]. An omitted key has its default; an explicit
// delay of zero is zero.
func (l *LinkSpec) UnmarshalStrict(d *strictyaml.Decoder, n *yaml.Node, path string) {
	*l = LinkSpec{Rate: DefaultRate, Delay: DefaultDelay}
	d.Fields(n, l, path)
	if l.Rate == 0 {
		d.Complain(strictyaml.Join(path, "rate"), "a link of no rate carries nothing",
			"write for example 400Gb/s, or cut the link by an event of a failure case")
	}
}
