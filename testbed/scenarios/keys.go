// Package scenarios is the folder of the scenarios that come with Ethereal. Its Go code reads their JSON schema.
package scenarios

import (
	_ "embed"
	"strings"

	"go.yaml.in/yaml/v3"
)

//go:embed scenario.schema.json
var schema []byte

// Key is a key of scenario files: its path, such as failures[].events[].at, the kind of its value, the default if there
// is one, and what it means. Where the same keys appear again, one Key stands for all of them; its path ends in "...".
type Key struct {
	Path     string `json:"key"`
	What     string `json:"what,omitempty"`
	Default  string `json:"default,omitempty"`
	Required bool   `json:"required,omitempty"`
	Meaning  string `json:"meaning"`
}

// Keys returns all keys of a scenario, in the schema's order.
func Keys() ([]Key, error) {
	var doc yaml.Node // JSON is YAML, and a node keeps the order of keys
	if err := yaml.Unmarshal(schema, &doc); err != nil {
		return nil, err
	}
	k := keyCollector{root: doc.Content[0], seen: map[string]string{}}
	k.addObject(k.root, "")
	return k.out, nil
}

// keyCollector collects the keys of a JSON schema.
type keyCollector struct {
	root *yaml.Node
	out  []Key
	seen map[string]string // by definition of the schema: the key whose own keys are in out
}

// valueAt returns the value at a key of a YAML mapping, or nil.
func valueAt(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

func scalarText(n *yaml.Node) string {
	if n == nil {
		return ""
	}
	return n.Value
}

// resolveRef returns the schema that a $ref refers to, and its name.
func (k *keyCollector) resolveRef(n *yaml.Node) (*yaml.Node, string) {
	name := strings.TrimPrefix(scalarText(valueAt(n, "$ref")), "#/$defs/")
	if name == "" {
		return n, ""
	}
	return valueAt(valueAt(k.root, "$defs"), name), name
}

// addObject adds the keys of an object, and of the objects and lists in it.
func (k *keyCollector) addObject(o *yaml.Node, path string) {
	required := map[string]bool{}
	if r := valueAt(o, "required"); r != nil {
		for _, n := range r.Content {
			required[n.Value] = true
		}
	}
	properties := valueAt(o, "properties")
	for i := 0; i+1 < len(properties.Content); i += 2 {
		name, p := properties.Content[i].Value, properties.Content[i+1]
		key := path + name
		to, of := k.resolveRef(p)
		meaning := scalarText(valueAt(p, "description"))
		if meaning == "" {
			meaning = scalarText(valueAt(to, "description"))
		}
		k.out = append(k.out, Key{key, k.kindName(to, of), scalarText(valueAt(p, "default")), required[name], meaning})
		if list := valueAt(to, "items"); list != nil {
			k.addInner(list, key+"[].")
		} else {
			k.addInner(p, key+".")
		}
	}
}

// repeatKey adds one key in place of the keys of a definition that were already listed.
func (k *keyCollector) repeatKey(name, path string) bool {
	first, ok := k.seen[name]
	if name == "" || !ok {
		k.seen[name] = path
		return false
	}
	k.out = append(k.out, Key{Path: path + "...", Meaning: "As " + first + "..."})
	return true
}

// addInner adds the keys of the object that n is or may be.
func (k *keyCollector) addInner(n *yaml.Node, path string) {
	n, name := k.resolveRef(n)
	if valueAt(n, "properties") != nil && !k.repeatKey(name, path) {
		k.addObject(n, path)
	}
	if alternatives := valueAt(n, "anyOf"); alternatives != nil {
		for _, a := range alternatives.Content {
			k.addInner(a, path)
		}
	}
}

// kindName returns the name of a value's kind.
func (k *keyCollector) kindName(n *yaml.Node, name string) string {
	if name == "bytes" {
		name = "size"
	}
	if e := valueAt(n, "enum"); e != nil {
		var names []string
		for _, v := range e.Content {
			names = append(names, v.Value)
		}
		return strings.Join(names, ", ")
	}
	switch typ := scalarText(valueAt(n, "type")); {
	case name == "time", name == "moment", name == "rate", name == "size", name == "share":
		return name
	case typ == "array":
		items, of := k.resolveRef(valueAt(n, "items"))
		if of != "" || valueAt(items, "enum") == nil {
			return "list"
		}
		return "list of " + k.kindName(items, "")
	case typ == "object":
		return "mapping"
	case typ == "integer", typ == "number":
		return "number"
	case typ == "boolean":
		return "true, false"
	case typ == "string":
		return "text"
	}
	var alternatives []string
	if any := valueAt(n, "anyOf"); any != nil {
		for _, a := range any.Content {
			to, of := k.resolveRef(a)
			if w := k.kindName(to, of); len(alternatives) == 0 || alternatives[len(alternatives)-1] != w {
				alternatives = append(alternatives, w)
			}
		}
	}
	return strings.Join(alternatives, " or ")
}
