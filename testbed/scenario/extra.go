package scenario

import (
	"reflect"

	"go.yaml.in/yaml/v3"
)

// ParseWith reads a scenario to which a file of another kind adds top-level keys,
// such as an experiment's steps. Each value of extra is a pointer to what is
// filled from the key; its fields follow the rules of a scenario's own. check, if
// not nil, is called when all could be read, and complains about what was.
func ParseWith(name string, data []byte, read func(path string) ([]byte, error), extra map[string]any,
	check func(s *Scenario, complain func(key, problem, remedy string))) (*Scenario, error) {
	d := newDecoder(name, read)
	root := d.document(data, "an experiment")
	s := d.preset(root)
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
				d.where[key] = d.at(root.Content[i])
				d.value(root.Content[i+1], reflect.ValueOf(into).Elem(), key, 0)
			}
		}
		d.value(&own, reflect.ValueOf(&s).Elem(), "", 0)
	}
	complain := func(path, problem, remedy string) { d.fail(d.locate(path), path, problem, remedy) }
	if len(d.errs) == 0 {
		s.check(complain)
	}
	if len(d.errs) == 0 && check != nil {
		check(&s, complain)
	}
	if err := d.errs.err(); err != nil {
		return nil, err
	}
	return &s, nil
}

// LoadWith reads a file as [ParseWith] does.
func LoadWith(path string, extra map[string]any,
	check func(s *Scenario, complain func(key, problem, remedy string))) (*Scenario, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, advise(err, "name an experiment file, for example mininet/experiments/single-link.yaml")
	}
	return ParseWith(path, data, readFile, extra, check)
}
