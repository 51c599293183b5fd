package scenario

import (
	"go.yaml.in/yaml/v3"

	"github.com/ethereal-fabric/ethereal/fabric/strictyaml"
)

// ParseWith reads a scenario to which a file of another kind adds top-level keys,
// such as an experiment's steps. Each value of extra is a pointer to what is
// filled from the key; its fields follow the rules of a scenario's own. check, if
// not nil, is called when all could be read, and complains about what was.
func ParseWith(name string, data []byte, read func(path string) ([]byte, error), extra map[string]any,
	check func(s *Scenario, complain func(key, problem, remedy string))) (*Scenario, error) {
	d := strictyaml.New(name, read)
	root := d.Document(data, "an experiment")
	s := presetOf(root)
	if root != nil {
		own := *root
		if root.Kind == yaml.MappingNode {
			own.Content = nil
			seen := map[string]bool{}
			for i := 0; i+1 < len(root.Content); i += 2 {
				key := root.Content[i].Value
				into, ok := extra[key]
				if !ok || seen[key] {
					own.Content = append(own.Content, root.Content[i], root.Content[i+1])
					continue
				}
				seen[key] = true
				d.Value(root.Content[i+1], into, key)
			}
		}
		d.Value(&own, &s, "")
	}
	if d.OK() {
		s.check(d.Complain)
	}
	if d.OK() && check != nil {
		check(&s, d.Complain)
	}
	if err := d.Err(); err != nil {
		return nil, err
	}
	return &s, nil
}

// LoadWith reads a file as [ParseWith] does.
func LoadWith(path string, extra map[string]any,
	check func(s *Scenario, complain func(key, problem, remedy string))) (*Scenario, error) {
	data, err := strictyaml.ReadFile(path)
	if err != nil {
		return nil, advise(err, "name an experiment file, for example mininet/experiments/single-link.yaml")
	}
	return ParseWith(path, data, strictyaml.ReadFile, extra, check)
}
