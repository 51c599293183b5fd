package scenario

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Limits on what is read, so that a file of a few lines cannot fill memory by
// way of aliases.
const (
	maxBytes = 1 << 20
	maxNodes = 100_000 // YAML nodes visited, aliases followed
	maxDepth = 32
	maxFound = 20 // errors after which reading stops
)

// decoder fills Go values from YAML nodes, and remembers where each key stood.
// Errors are collected: a value that cannot be read keeps its default.
type decoder struct {
	file   string
	read   func(path string) ([]byte, error) // nil: no reference to a file is followed
	where  map[string]Pos
	errs   Errors
	budget int
	full   bool // the budget is spent
}

// nodeDecoder is a type that may be written in more than one way.
type nodeDecoder interface {
	decodeNode(d *decoder, n *yaml.Node, path string)
}

func (d *decoder) at(n *yaml.Node) Pos { return Pos{d.file, n.Line, n.Column} }

func (d *decoder) fail(p Pos, path, problem, remedy string) {
	if len(d.errs) < maxFound {
		d.errs = append(d.errs, &Error{p, path, problem, remedy})
	}
}

// locate returns where a key stands, or the nearest key around it.
func (d *decoder) locate(path string) Pos {
	for {
		if p, ok := d.where[path]; ok {
			return p
		}
		cut := strings.LastIndexAny(path, ".[")
		if cut < 0 {
			return d.where[""]
		}
		path = path[:cut]
	}
}

// value fills v from n. v must be settable.
func (d *decoder) value(n *yaml.Node, v reflect.Value, path string, depth int) {
	if d.budget--; d.budget < 0 || depth > maxDepth {
		if !d.full {
			d.fail(d.at(n), path, "too much to read, or nested too deeply", "write aliases out, or use fewer of them")
		}
		d.full = true
		return
	}
	if n.Kind == yaml.AliasNode {
		d.value(n.Alias, v, path, depth+1)
		return
	}
	if _, known := d.where[path]; !known {
		d.where[path] = d.at(n)
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return // as if the key were absent
	}
	if c, ok := reflect.TypeAssert[nodeDecoder](v.Addr()); ok {
		c.decodeNode(d, n, path)
		return
	}
	if spec, ok := reflect.TypeAssert[*fabric.Spec](v.Addr()); ok && n.Kind == yaml.ScalarNode {
		d.fabricFile(n, spec, path)
		return
	}
	if l, ok := reflect.TypeAssert[*fabric.LinkSpec](v.Addr()); ok {
		d.link(n, l, path, depth)
		return
	}
	if t, ok := reflect.TypeAssert[encoding.TextUnmarshaler](v.Addr()); ok {
		if d.scalar(n, path, "a quantity") {
			if err := t.UnmarshalText([]byte(n.Value)); err != nil {
				d.fail(d.at(n), path, strings.TrimPrefix(err.Error(), "fabric: "), "")
			}
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.mapping(n, v, path, depth)
	case reflect.Slice:
		d.sequence(n, v, path, depth)
	case reflect.Map:
		d.params(n, v, path)
	case reflect.String:
		if d.scalar(n, path, "text") {
			v.SetString(n.Value)
		}
	case reflect.Int:
		if !d.scalar(n, path, "a number") {
			return
		}
		i, err := strconv.ParseInt(n.Value, 0, 64)
		if err != nil || v.OverflowInt(i) {
			d.fail(d.at(n), path, fmt.Sprintf("%q is not a whole number", n.Value), "write for example 4")
			return
		}
		v.SetInt(i)
	case reflect.Float64:
		if !d.scalar(n, path, "a number") {
			return
		}
		f, err := strconv.ParseFloat(n.Value, 64)
		if err != nil || f != f {
			d.fail(d.at(n), path, fmt.Sprintf("%q is not a number", n.Value), "write for example 0.5")
			return
		}
		v.SetFloat(f)
	case reflect.Bool:
		if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" {
			d.fail(d.at(n), path, fmt.Sprintf("%s is not a yes or no", describe(n)), "write true or false")
			return
		}
		v.SetBool(strings.EqualFold(n.Value, "true"))
	default:
		panic("scenario: no way to read a " + v.Type().String()) // a field added without one; the tests read all
	}
}

// into fills the struct that v points to. It is for types that read a mapping in
// a way of their own and want the plain one as well. It returns the keys that
// misspelt ones were meant to be.
func (d *decoder) into(n *yaml.Node, v any, path string) (meant []string) {
	return d.mapping(n, reflect.ValueOf(v).Elem(), path, 0)
}

// link fills the links of a tier. What the mapping leaves out has its default,
// and what it says holds: a delay of zero is one, not the default.
func (d *decoder) link(n *yaml.Node, l *fabric.LinkSpec, path string, depth int) {
	*l = fabric.LinkSpec{Rate: fabric.DefaultRate, Delay: fabric.DefaultDelay}
	d.mapping(n, reflect.ValueOf(l).Elem(), path, depth)
	if l.Rate == 0 {
		p := join(path, "rate")
		d.fail(d.locate(p), p, "a link of no rate carries nothing", "write for example 400Gb/s, or cut the link by an event of a failure case")
	}
}

// scalar reports whether n is a scalar, and complains when not.
func (d *decoder) scalar(n *yaml.Node, path, want string) bool {
	if n.Kind != yaml.ScalarNode {
		d.fail(d.at(n), path, fmt.Sprintf("%s where %s belongs", describe(n), want), "write a single value")
	}
	return n.Kind == yaml.ScalarNode
}

// mapping fills a struct. It returns the keys that misspelt ones were meant to be.
func (d *decoder) mapping(n *yaml.Node, v reflect.Value, path string, depth int) (meant []string) {
	t := v.Type()
	var known, required []string
	field := map[string]int{}
	for i := range t.NumField() {
		key, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
		known = append(known, key)
		field[key] = i
		if t.Field(i).Tag.Get("scenario") == "required" {
			required = append(required, key)
		}
	}
	seen, meant := d.keys(n, path, known, func(key string, n *yaml.Node, p string) {
		d.value(n, v.Field(field[key]), p, depth+1)
	})
	if seen == nil {
		return meant
	}
	for _, key := range required {
		if !slices.Contains(seen, key) && !slices.Contains(meant, key) {
			d.fail(d.locate(path), join(path, key), "is missing", "add it; "+purpose(t, key))
		}
	}
	return meant
}

// keys calls do for every key of a mapping that is one of known (any key when
// known is nil), and complains about the others. It returns the keys it saw,
// nil when n is not a mapping, and those that misspelt keys were meant to be.
func (d *decoder) keys(n *yaml.Node, path string, known []string,
	do func(key string, n *yaml.Node, path string)) (seen, meant []string) {
	if n.Kind != yaml.MappingNode {
		remedy := "write key: value pairs"
		if known != nil {
			remedy += " (" + strings.Join(known, ", ") + ")"
		}
		d.fail(d.at(n), path, describe(n)+" where a mapping belongs", remedy)
		return nil, nil
	}
	seen = []string{}
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, val := n.Content[i], n.Content[i+1]
		key := k.Value
		p := join(path, key)
		if line, twice := first[key]; twice {
			d.fail(d.at(k), p, fmt.Sprintf("was given on line %d already", line), "keep one of the two")
			continue
		}
		first[key] = k.Line
		if k.Kind != yaml.ScalarNode || known != nil && !slices.Contains(known, key) {
			if k.Kind != yaml.ScalarNode {
				p = path
			}
			d.fail(d.at(k), p, "unknown key", choose(key, known))
			meant = append(meant, nearest(key, known))
			continue
		}
		seen = append(seen, key)
		d.where[p] = d.at(k)
		do(key, val, p)
	}
	return seen, meant
}

// sequence fills a slice, replacing what it holds.
func (d *decoder) sequence(n *yaml.Node, v reflect.Value, path string, depth int) {
	if n.Kind != yaml.SequenceNode {
		d.fail(d.at(n), path, describe(n)+" where a list belongs", "write one item a line, each after a dash")
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), 0, min(len(n.Content), 1024)))
	for i, item := range n.Content {
		if d.full {
			return
		}
		e := reflect.New(v.Type().Elem()).Elem()
		p := fmt.Sprintf("%s[%d]", path, i)
		if item.Kind == yaml.ScalarNode && item.Tag == "!!null" {
			d.fail(d.at(item), p, "is empty", "fill it in, or remove the dash")
		}
		d.value(item, e, p, depth+1)
		v.Set(reflect.Append(v, e))
	}
}

// params fills a map of text to text.
func (d *decoder) params(n *yaml.Node, v reflect.Value, path string) {
	m := map[string]string{}
	d.keys(n, path, nil, func(key string, n *yaml.Node, p string) {
		if d.scalar(n, p, "a value") {
			m[key] = n.Value
		}
	})
	v.Set(reflect.ValueOf(m))
}

// describe names what a node is, for messages.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
		if n.Tag == "!!null" {
			return "nothing"
		}
		return strconv.Quote(n.Value)
	}
	return "an alias"
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// purpose says what a required key is for, with an example.
func purpose(t reflect.Type, key string) string {
	return map[string]string{
		"Scenario.name":        "the scenario's name goes into every result",
		"Scenario.fabric":      "for example fabric: {kind: fat-tree, k: 4}",
		"Scenario.collectives": "for example a list with - {kind: all-to-all, bytes: 16MB}",
		"Scenario.schemes":     "for example schemes: [ethereal, ecmp]",
		"Collective.kind":      "for example all-to-all",
		"Scheme.name":          "for example ethereal",
		"Failure.name":         "the case's name goes into every result",
		"Event.at":             "for example 20us after the start of the collective",
		"Event.action":         "cut, restore, gray, degrade or flap",
	}[typeName(t)+"."+key]
}

// typeName returns the name that a type goes by in purpose.
func typeName(t reflect.Type) string {
	for _, known := range []reflect.Type{reflect.TypeFor[Event](), reflect.TypeFor[Collective]()} {
		if t.ConvertibleTo(known) {
			return known.Name()
		}
	}
	return t.Name()
}
