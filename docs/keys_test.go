package docs

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the tables of pages that are made of what the program knows")

// TestKeys holds the table in scenario.md to scenario.schema.json.
func TestKeys(t *testing.T) {
	data, err := os.ReadFile("../testbed/scenarios/scenario.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc yaml.Node // JSON is YAML, and a node keeps the order of keys
	if err := yaml.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	k := keys{root: doc.Content[0], seen: map[string]string{}}
	k.out.WriteString("| key | what | default | meaning |\n|---|---|---|---|\n")
	k.object(k.root, "")

	checkTable(t, "scenario.md", "keys", k.out.String())
}

// checkTable holds the table of that name on a page, between two comments, to what it should be; -rewrite writes it.
func checkTable(t *testing.T, path, name, want string) {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	first, last := "<!-- "+name+": written by", "<!-- end of "+name+" -->"
	at := strings.Index(string(page), first)
	from := at + strings.Index(string(page)[max(0, at):], "\n") + 1
	to := strings.Index(string(page), last)
	if at < 0 || to < from {
		t.Fatalf("%s has no place for the %s, between %q and %q", path, name, first, last)
	}
	if *rewrite {
		if err := os.WriteFile(path, []byte(string(page)[:from]+want+string(page)[to:]), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(want, string(page)[from:to]); d != "" {
		t.Errorf("%s's %s (-program +page; -rewrite writes them):\n%s", path, name, d)
	}
}

// keys writes a row for each key of a JSON schema.
type keys struct {
	root *yaml.Node
	out  strings.Builder
	seen map[string]string // by definition of the schema: the key whose own keys have been written
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

// object writes the keys of an object, and of the objects and lists in it.
func (k *keys) object(o *yaml.Node, path string) {
	required := map[string]bool{}
	if r := at(o, "required"); r != nil {
		for _, n := range r.Content {
			required[n.Value] = true
		}
	}
	properties := at(o, "properties")
	for i := 0; i+1 < len(properties.Content); i += 2 {
		key, p := path+properties.Content[i].Value, properties.Content[i+1]
		to, name := k.follow(p)
		meaning := text(at(p, "description"))
		if meaning == "" {
			meaning = text(at(to, "description"))
		}
		def := text(at(p, "default"))
		switch {
		case required[properties.Content[i].Value]:
			def = "required"
		case def != "":
			def = "`" + def + "`"
		}
		fmt.Fprintf(&k.out, "| `%s` | %s | %s | %s |\n", key, k.what(to, name), def, strings.ReplaceAll(meaning, "|", "or"))
		if list := at(to, "items"); list != nil {
			k.inner(list, key+"[].")
		} else {
			k.inner(p, key+".")
		}
	}
}

// again writes one row in place of the keys of a definition that was written before.
func (k *keys) again(name, path string) bool {
	first, ok := k.seen[name]
	if name == "" || !ok {
		k.seen[name] = path
		return false
	}
	fmt.Fprintf(&k.out, "| `%s...` | | | As `%s...`. |\n", path, first)
	return true
}

// inner writes the keys of the object that n is or may be.
func (k *keys) inner(n *yaml.Node, path string) {
	n, name := k.follow(n)
	if at(n, "properties") != nil && !k.again(name, path) {
		k.object(n, path)
	}
	if any := at(n, "anyOf"); any != nil {
		for _, a := range any.Content {
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
			names = append(names, "`"+v.Value+"`")
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
		return "`true`, `false`"
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
