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
	k := keys{root: doc.Content[0], seen: map[string]string{}}
	k.object(k.root, "")
	return k.out, nil
}

// keys collects the keys of a JSON schema.
type keys struct {
	root *yaml.Node
	out  []Key
	seen map[string]string // by definition of the schema: the key whose own keys are in out
}

// at returns what a mapping has at a key, or nil.
func at(n *yaml.Node, key string) *yaml.Node {
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

func text(n *yaml.Node) string {
	if n == nil {
		return ""
	}
	return n.Value
}

// follow returns what a reference stands for, and its name.
func (k *keys) follow(n *yaml.Node) (*yaml.Node, string) {
	name := strings.TrimPrefix(text(at(n, "$ref")), "#/$defs/")
	if name == "" {
		return n, ""
	}
	return at(at(k.root, "$defs"), name), name
}

// object adds the keys of an object, and of the objects and lists in it.
func (k *keys) object(o *yaml.Node, path string) {
	required := map[string]bool{}
	if r := at(o, "required"); r != nil {
		for _, n := range r.Content {
			required[n.Value] = true
		}
	}
	properties := at(o, "properties")
	for i := 0; i+1 < len(properties.Content); i += 2 {
		name, p := properties.Content[i].Value, properties.Content[i+1]
		key := path + name
		to, of := k.follow(p)
		meaning := text(at(p, "description"))
		if meaning == "" {
			meaning = text(at(to, "description"))
		}
		k.out = append(k.out, Key{key, k.what(to, of), text(at(p, "default")), required[name], meaning})
		if list := at(to, "items"); list != nil {
			k.inner(list, key+"[].")
		} else {
			k.inner(p, key+".")
		}
	}
}

// again adds one key in place of the keys of a definition that are in out already.
func (k *keys) again(name, path string) bool {
	first, ok := k.seen[name]
	if name == "" || !ok {
		k.seen[name] = path
		return false
	}
	k.out = append(k.out, Key{Path: path + "...", Meaning: "As " + first + "..."})
	return true
}

// inner adds the keys of the object that n is or may be.
func (k *keys) inner(n *yaml.Node, path string) {
	n, name := k.follow(n)
	if at(n, "properties") != nil && !k.again(name, path) {
		k.object(n, path)
	}
	if alternatives := at(n, "anyOf"); alternatives != nil {
		for _, a := range alternatives.Content {
			k.inner(a, path)
		}
	}
}

// what names a value's kind.
func (k *keys) what(n *yaml.Node, name string) string {
	if name == "bytes" {
		name = "size"
	}
	if e := at(n, "enum"); e != nil {
		var names []string
		for _, v := range e.Content {
			names = append(names, v.Value)
		}
		return strings.Join(names, ", ")
	}
	switch typ := text(at(n, "type")); {
	case name == "time", name == "moment", name == "rate", name == "size", name == "share":
		return name
	case typ == "array":
		items, of := k.follow(at(n, "items"))
		if of != "" || at(items, "enum") == nil {
			return "list"
		}
		return "list of " + k.what(items, "")
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
	if any := at(n, "anyOf"); any != nil {
		for _, a := range any.Content {
			to, of := k.follow(a)
			if w := k.what(to, of); len(alternatives) == 0 || alternatives[len(alternatives)-1] != w {
				alternatives = append(alternatives, w)
			}
		}
	}
	return strings.Join(alternatives, " or ")
}
