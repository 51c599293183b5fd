package strictyaml

import (
	"encoding"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Limits of a file, so that a few lines cannot fill memory by aliases.
const (
	// MaxValues is the largest number of values in a file, with aliases expanded.
	MaxValues = 100_000
	maxDepth  = 32
	maxFound  = 20 // errors after which reading stops
)

// Decoder fills Go values from YAML nodes, and remembers the place of each key. Errors are collected: an unreadable
// value leaves its field unchanged.
type Decoder struct {
	// Values is the number of values that may still be read. [New] sets it to [MaxValues].
	Values int

	file string
	read func(path string) ([]byte, error)
	at   map[string]Pos
	errs Errors
	full bool // Values are used up
}

// Unmarshaler is a type that reads itself from YAML: because it can be written in several ways, or has rules that its
// fields cannot state. It reads n by the methods of d.
type Unmarshaler interface {
	UnmarshalStrict(d *Decoder, n *yaml.Node, path string)
}

// New returns a decoder. file appears in errors. read fetches the files that this one names; if it is nil, no file
// may be named.
func New(file string, read func(path string) ([]byte, error)) *Decoder {
	return &Decoder{Values: MaxValues, file: file, read: read, at: map[string]Pos{"": {file, 1, 1}}}
}

// Err returns [Errors], or nil without errors.
func (d *Decoder) Err() error { return d.errs.Err() }

// OK reports whether there are no errors so far.
func (d *Decoder) OK() bool { return len(d.errs) == 0 }

// Complain adds an error about the value at a key path, or about a missing one.
func (d *Decoder) Complain(path, problem, remedy string) {
	d.addError(d.At(path), path, problem, remedy)
}

// ComplainAt is [Decoder.Complain] with the place of a node.
func (d *Decoder) ComplainAt(n *yaml.Node, path, problem, remedy string) {
	d.addError(d.pos(n), path, problem, remedy)
}

// Given reports whether the file has the key at a key path.
func (d *Decoder) Given(path string) bool {
	_, ok := d.at[path]
	return ok
}

// RelativePath returns the path of a file whose name is relative to this file.
func (d *Decoder) RelativePath(name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(d.file), name)
}

// Include decodes the file that node n names into the value that into points to.
func (d *Decoder) Include(n *yaml.Node, into any, path, what, remedy string) {
	if d.read == nil {
		d.ComplainAt(n, path, "a file cannot be named here", remedy)
		return
	}
	name := d.RelativePath(n.Value)
	data, err := d.read(name)
	if err != nil {
		d.ComplainAt(n, path, err.Error(), remedy)
		return
	}
	in := New(name, nil)
	if root := in.Document(data, what); root != nil {
		in.Value(root, into, "")
	}
	if len(in.errs) > 0 && len(in.at) == 1 {
		// None of its keys is known: it is another kind of file, whose lines must not be printed.
		d.ComplainAt(n, path, fmt.Sprintf("%s is not %s (see its line %d)", name, what, in.errs[0].Line), remedy)
		return
	}
	d.errs = append(d.errs, in.errs...)
	for key, pos := range in.at {
		if key != "" {
			d.at[Join(path, key)] = pos
		}
	}
}

// Value decodes node n, at a key path, into the value that into points to.
func (d *Decoder) Value(n *yaml.Node, into any, path string) {
	d.value(n, reflect.ValueOf(into).Elem(), path, 0)
}

// Fields decodes a mapping into the struct that into points to, for an [Unmarshaler] that accepts other forms, too. It
// returns the keys that misspelt ones probably mean.
func (d *Decoder) Fields(n *yaml.Node, into any, path string) (meant []string) {
	return d.mapping(n, reflect.ValueOf(into).Elem(), path, 0)
}

func (d *Decoder) pos(n *yaml.Node) Pos { return Pos{d.file, n.Line, n.Column} }

func (d *Decoder) addError(p Pos, path, problem, remedy string) {
	if len(d.errs) < maxFound {
		d.errs = append(d.errs, &Error{p, path, problem, remedy})
	}
}

// At returns the place of a key, or of the nearest key around it.
func (d *Decoder) At(path string) Pos {
	for {
		if p, ok := d.at[path]; ok {
			return p
		}
		cut := strings.LastIndexAny(path, ".[")
		if cut < 0 {
			return d.at[""]
		}
		path = path[:cut]
	}
}

// value fills v from n. v must be settable.
func (d *Decoder) value(n *yaml.Node, v reflect.Value, path string, depth int) {
	if d.Values--; d.Values < 0 || depth > maxDepth {
		if !d.full {
			d.ComplainAt(n, path, "too much to read, or nested too deeply", "write aliases out, or use fewer of them")
		}
		d.full = true
		return
	}
	if n.Kind == yaml.AliasNode {
		d.value(n.Alias, v, path, depth+1)
		return
	}
	if _, known := d.at[path]; !known {
		d.at[path] = d.pos(n)
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return // as if the key were absent
	}
	if v.Type() == reflect.TypeFor[yaml.Node]() {
		d.node(n, v.Addr().Interface().(*yaml.Node), path, depth)
		return
	}
	if u, ok := reflect.TypeAssert[Unmarshaler](v.Addr()); ok {
		u.UnmarshalStrict(d, n, path)
		return
	}
	if t, ok := reflect.TypeAssert[encoding.TextUnmarshaler](v.Addr()); ok {
		d.text(n, t, path)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.mapping(n, v, path, depth)
	case reflect.Slice:
		d.sequence(n, v, path, depth)
	case reflect.Map:
		d.table(n, v, path, depth)
	case reflect.Pointer:
		e := reflect.New(v.Type().Elem())
		d.value(n, e.Elem(), path, depth+1)
		v.Set(e)
	default:
		d.scalar(n, v, path)
	}
}

// node copies a node and all nodes below it. Aliases are replaced by copies, so that a part of the copy may be
// changed.
func (d *Decoder) node(n, into *yaml.Node, path string, depth int) {
	*into = *n
	into.Anchor, into.Content = "", nil
	for _, c := range n.Content {
		e := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: c.Line, Column: c.Column}
		d.value(c, reflect.ValueOf(e).Elem(), path, depth+1)
		into.Content = append(into.Content, e)
	}
}

// text decodes a quantity by its UnmarshalText. Its errors have the form "package: problem; remedy".
func (d *Decoder) text(n *yaml.Node, t encoding.TextUnmarshaler, path string) {
	if !d.Scalar(n, path, "a quantity") {
		return
	}
	if err := t.UnmarshalText([]byte(n.Value)); err != nil {
		problem := err.Error()
		if lead, rest, ok := strings.Cut(problem, ": "); ok && !strings.ContainsAny(lead, " \"") {
			problem = rest
		}
		problem, remedy, _ := strings.Cut(problem, "; ")
		d.ComplainAt(n, path, problem, remedy)
	}
}

// scalar fills a plain value.
func (d *Decoder) scalar(n *yaml.Node, v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.String:
		if d.Scalar(n, path, "text") {
			v.SetString(n.Value)
		}
	case reflect.Int, reflect.Int32, reflect.Int64:
		if !d.Scalar(n, path, "a number") {
			return
		}
		i, err := strconv.ParseInt(n.Value, 0, 64)
		if err != nil || v.OverflowInt(i) {
			d.ComplainAt(n, path, fmt.Sprintf("%q is not a whole number", n.Value), "write for example 4")
			return
		}
		v.SetInt(i)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if !d.Scalar(n, path, "a number") {
			return
		}
		i, err := strconv.ParseUint(n.Value, 0, 64)
		if err != nil || v.OverflowUint(i) {
			d.ComplainAt(n, path, fmt.Sprintf("%q is not a whole number from 0 to %d", n.Value, uint64(1)<<v.Type().Bits()-1), "write for example 4")
			return
		}
		v.SetUint(i)
	case reflect.Float64:
		if !d.Scalar(n, path, "a number") {
			return
		}
		f, err := strconv.ParseFloat(n.Value, 64)
		if err != nil || f != f {
			d.ComplainAt(n, path, fmt.Sprintf("%q is not a number", n.Value), "write for example 0.5")
			return
		}
		v.SetFloat(f)
	case reflect.Bool:
		if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" {
			d.ComplainAt(n, path, fmt.Sprintf("%s is not a yes or no", describe(n)), "write true or false")
			return
		}
		v.SetBool(strings.EqualFold(n.Value, "true"))
	default:
		panic("strictyaml: no way to read a " + v.Type().String()) // a field of a new type; the tests read all fields
	}
}

// Scalar reports whether n is a scalar, and adds an error if not.
func (d *Decoder) Scalar(n *yaml.Node, path, want string) bool {
	if n.Kind != yaml.ScalarNode {
		d.ComplainAt(n, path, fmt.Sprintf("%s where %s belongs", describe(n), want), "write a single value")
	}
	return n.Kind == yaml.ScalarNode
}

// mapping fills a struct. It returns the keys that misspelt ones probably mean.
func (d *Decoder) mapping(n *yaml.Node, v reflect.Value, path string, depth int) (meant []string) {
	t := v.Type()
	known := KeysOf(v.Interface())
	former := map[string]string{} // new key by former key
	field := map[string]int{}
	for i := range t.NumField() {
		key, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
		if key == "" || key == "-" {
			continue
		}
		field[key] = i
		if was := t.Field(i).Tag.Get("was"); was != "" {
			former[was] = key
		}
	}
	seen, meant := d.keys(n, path, known, former, func(key string, n *yaml.Node, p string) {
		d.value(n, v.Field(field[key]), p, depth+1)
	})
	if seen == nil {
		return meant
	}
	for _, key := range known {
		remedy, required := t.Field(field[key]).Tag.Lookup("required")
		if required && !slices.Contains(seen, key) && !slices.Contains(meant, key) {
			d.addError(d.At(path), Join(path, key), "is missing", "add it; "+remedy)
		}
	}
	return meant
}

// Keys calls do for every key of a mapping that is in known (every key if known is nil), and adds errors for the
// others. It returns the keys seen, nil if n is not a mapping, and the keys that misspelt ones probably mean.
func (d *Decoder) Keys(n *yaml.Node, path string, known []string,
	do func(key string, n *yaml.Node, path string)) (seen, meant []string) {
	return d.keys(n, path, known, nil, do)
}

func (d *Decoder) keys(n *yaml.Node, path string, known []string, former map[string]string,
	do func(key string, n *yaml.Node, path string)) (seen, meant []string) {
	if n.Kind != yaml.MappingNode {
		remedy := "write key: value pairs"
		if known != nil {
			remedy += " (" + strings.Join(known, ", ") + ")"
		}
		d.ComplainAt(n, path, describe(n)+" where a mapping belongs", remedy)
		return nil, nil
	}
	seen = []string{}
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, val := n.Content[i], n.Content[i+1]
		key := k.Value
		p := Join(path, key)
		if line, twice := first[key]; twice {
			d.ComplainAt(k, p, fmt.Sprintf("was given on line %d already", line), "keep one of the two")
			continue
		}
		first[key] = k.Line
		if k.Kind != yaml.ScalarNode || known != nil && !slices.Contains(known, key) {
			if k.Kind != yaml.ScalarNode {
				p = path
			}
			remedy, now := Choose(key, known), Nearest(key, known)
			if name, was := former[key]; was {
				remedy, now = fmt.Sprintf("it is called %s now", name), name
			}
			d.ComplainAt(k, p, "unknown key", remedy)
			meant = append(meant, now)
			continue
		}
		seen = append(seen, key)
		d.at[p] = d.pos(k)
		do(key, val, p)
	}
	return seen, meant
}

// sequence fills a slice, replacing its content.
func (d *Decoder) sequence(n *yaml.Node, v reflect.Value, path string, depth int) {
	if n.Kind != yaml.SequenceNode {
		d.ComplainAt(n, path, describe(n)+" where a list belongs", "write one item a line, each after a dash")
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
			d.ComplainAt(item, p, "is empty", "fill it in, or remove the dash")
		}
		d.value(item, e, p, depth+1)
		v.Set(reflect.Append(v, e))
	}
}

// table fills a map with text keys, replacing its content.
func (d *Decoder) table(n *yaml.Node, v reflect.Value, path string, depth int) {
	m := reflect.MakeMap(v.Type())
	d.Keys(n, path, nil, func(key string, n *yaml.Node, p string) {
		if d.full {
			return
		}
		e := reflect.New(v.Type().Elem()).Elem()
		d.value(n, e, p, depth+1)
		m.SetMapIndex(reflect.ValueOf(key).Convert(v.Type().Key()), e)
	})
	v.Set(m)
}

// describe returns a node's kind, for errors.
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

// KeysOf returns the YAML keys of the fields of struct v.
func KeysOf(v any) []string {
	var keys []string
	for f := range reflect.TypeOf(v).Fields() {
		if key, _, _ := strings.Cut(f.Tag.Get("yaml"), ","); key != "" && key != "-" {
			keys = append(keys, key)
		}
	}
	return keys
}

// Join returns the key path of a key below another.
func Join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
