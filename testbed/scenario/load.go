package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Load reads a scenario file. The error is [Errors] when the file's content is
// wrong, and the system's when it cannot be read.
func Load(path string) (*Scenario, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, advise(err, "name a scenario file, for example testbed/scenarios/demo.yaml")
	}
	return Parse(path, data, readFile)
}

// Parse reads a scenario from memory. name goes into messages, and file
// references are relative to its folder. read fetches a referenced file; when
// it is nil, references are refused.
func Parse(name string, data []byte, read func(path string) ([]byte, error)) (*Scenario, error) {
	d := newDecoder(name, read)
	root := d.document(data, "a scenario")
	s := d.preset(root)
	if root != nil {
		d.value(root, reflect.ValueOf(&s).Elem(), "", 0)
	}
	// What is wrong with a value that could not be read is said already.
	if len(d.errs) == 0 {
		s.check(func(path, problem, remedy string) { d.fail(d.locate(path), path, problem, remedy) })
	}
	if err := d.errs.err(); err != nil {
		return nil, err
	}
	return &s, nil
}

// LoadFabric reads a fabric file: what stands below a scenario's key "fabric",
// as a file of its own.
func LoadFabric(path string) (fabric.Spec, error) {
	data, err := readFile(path)
	if err != nil {
		return fabric.Spec{}, advise(err, "name a fabric file; `ethereal topo > FILE` writes one")
	}
	return ParseFabric(path, data)
}

// advise adds a remedy to an error about a file that is not there.
func advise(err error, remedy string) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w; %s", err, remedy)
	}
	return err
}

// ParseFabric reads a fabric file from memory. name goes into messages.
func ParseFabric(name string, data []byte) (fabric.Spec, error) {
	var s fabric.Spec
	d := newDecoder(name, nil)
	if root := d.document(data, "a fabric"); root != nil {
		d.value(root, reflect.ValueOf(&s).Elem(), "", 0)
	}
	if len(d.errs) == 0 {
		checkFabric(s, "", func(path, problem, remedy string) { d.fail(d.locate(path), path, problem, remedy) })
	}
	return s, d.errs.err()
}

func newDecoder(name string, read func(string) ([]byte, error)) *decoder {
	return &decoder{file: name, read: read, where: map[string]Pos{"": {name, 1, 1}}, budget: maxNodes}
}

var yamlLine = regexp.MustCompile(`^(?:yaml: )?(?:unmarshal errors:\s*)?line (\d+): (.*)`)

// document returns the root of the file's only YAML document, or nil after
// complaining.
func (d *decoder) document(data []byte, what string) *yaml.Node {
	start := Pos{d.file, 1, 1}
	var doc, second yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(data))
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) {
		d.fail(start, "", "the file is empty", "write "+what)
		return nil
	}
	if err == nil {
		if err = dec.Decode(&second); err == nil {
			d.fail(d.at(&second), "", "a second document begins", "keep one document per file")
			return nil
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
	}
	if err != nil {
		if tab, ok := indentTab(data); ok && strings.Contains(err.Error(), "found ") {
			d.fail(Pos{d.file, tab.Line, tab.Column}, "", "not YAML: a tab in the indentation", "indent with spaces")
			return nil
		}
		message := strings.TrimPrefix(err.Error(), "yaml: ")
		if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
			start.Line, _ = strconv.Atoi(m[1])
			message = m[2]
		}
		d.fail(start, "", "not YAML: "+message, "check indentation, colons and quotes on this line and the one before")
		return nil
	}
	if len(doc.Content) != 1 {
		d.fail(start, "", "the file is empty", "write "+what)
		return nil
	}
	return doc.Content[0]
}

// indentTab finds the first line that is indented with a tab. YAML readers
// notice it on that line or on a later one.
func indentTab(data []byte) (Pos, bool) {
	number := 0
	for line := range bytes.Lines(data) {
		number++
		text := bytes.TrimLeft(line, " ")
		if len(text) > 0 && text[0] == '\t' && len(bytes.TrimSpace(text)) > 0 {
			return Pos{Line: number, Column: len(line) - len(text) + 1}, true
		}
	}
	return Pos{}, false
}

// fabricFile fills spec from the file a scenario names.
func (d *decoder) fabricFile(n *yaml.Node, spec *fabric.Spec, path string) {
	name := n.Value
	if !filepath.IsAbs(name) {
		name = filepath.Join(filepath.Dir(d.file), name)
	}
	const remedy = "name a fabric file relative to this one, or write the fabric here as a mapping with kind"
	if d.read == nil {
		d.fail(d.at(n), path, "a file cannot be named here", remedy)
		return
	}
	data, err := d.read(name)
	if err != nil {
		d.fail(d.at(n), path, strings.TrimPrefix(err.Error(), "scenario: "), remedy)
		return
	}
	in := newDecoder(name, nil)
	if root := in.document(data, "a fabric"); root != nil {
		in.value(root, reflect.ValueOf(spec).Elem(), "", 0)
	}
	d.errs = append(d.errs, in.errs...)
	for key, pos := range in.where {
		if key != "" {
			d.where[join(path, key)] = pos
		}
	}
}

// readFile reads a regular file of no more than maxBytes.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("scenario: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("scenario: %s is not a regular file; name a YAML file", path)
	}
	if info.Size() > maxBytes {
		return nil, fmt.Errorf("scenario: %s has %d bytes; a scenario has no more than %d", path, info.Size(), maxBytes)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("scenario: %w", err)
	}
	return data, nil
}

// decodeNode reads a scheme: a name, or a mapping with parameters.
func (s *Scheme) decodeNode(d *decoder, n *yaml.Node, path string) {
	if n.Kind == yaml.ScalarNode {
		s.Name = n.Value
		return
	}
	d.mapping(n, reflect.ValueOf(s).Elem(), path, 0)
}

// decodeNode reads seeds: a number, a range, or a list of either.
func (s *Seeds) decodeNode(d *decoder, n *yaml.Node, path string) {
	*s = nil
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		items = n.Content
	}
	for _, item := range items {
		if !d.scalar(item, path, "a seed") {
			return
		}
		more, err := ParseSeeds(item.Value)
		if err != nil {
			d.fail(d.at(item), path, err.Error(), "write a number, a list such as [1, 2, 3] or a range such as 1..10")
			return
		}
		*s = append(*s, more...)
	}
}

// maxSeeds bounds a range of seeds.
const maxSeeds = 10_000

// ParseSeeds reads seeds as flags take them: "7", "1..10", or several of these
// with commas between.
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
		if b < a || b-a >= maxSeeds {
			return nil, fmt.Errorf("%q is not a range of 1 to %d seeds", part, maxSeeds)
		}
		for i := range b - a + 1 {
			out = append(out, a+i)
		}
	}
	return out, nil
}
