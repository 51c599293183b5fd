package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// MaxBytes is the largest size of a hand-written file.
const MaxBytes = 1 << 20

// ReadFile reads a regular file of at most [MaxBytes].
func ReadFile(path string) ([]byte, error) { return ReadLarge(path, MaxBytes) }

// ReadLarge reads a regular file of at most the given number of bytes.
func ReadLarge(path string, most int64) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file; name a YAML file", path)
	case info.Size() > most:
		return nil, fmt.Errorf("%s has %d bytes; such a file has no more than %d", path, info.Size(), most)
	}
	return os.ReadFile(path)
}

// Decode fills the value that into points to from a file's only document. file appears in errors; what names the
// expected content in the error for an empty file: "a fabric".
func Decode(file string, data []byte, what string, into any) error {
	d := New(file, nil)
	if root := d.Document(data, what); root != nil {
		d.Value(root, into, "")
	}
	return d.Err()
}

var yamlLine = regexp.MustCompile(`^(?:yaml: )?(?:unmarshal errors:\s*)?line (\d+): (.*)`)

// Document returns the root of the file's only YAML document, or nil after an error. what names the content that an
// empty file should have.
func (d *Decoder) Document(data []byte, what string) *yaml.Node {
	start := Pos{d.file, 1, 1}
	var doc, second yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(data))
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) {
		d.addError(start, "", "the file is empty", "write "+what)
		return nil
	}
	if err == nil {
		if err = dec.Decode(&second); err == nil {
			d.addError(d.pos(&second), "", "a second document begins", "keep one document per file")
			return nil
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
	}
	if err != nil {
		if tab, ok := indentTab(data); ok && strings.Contains(err.Error(), "found ") {
			tab.File = d.file
			d.addError(tab, "", "not YAML: a tab in the indentation", "indent with spaces")
			return nil
		}
		message := strings.TrimPrefix(err.Error(), "yaml: ")
		if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
			start.Line, _ = strconv.Atoi(m[1])
			if message = m[2]; strings.HasPrefix(message, "did not find expected") {
				start.Line++ // the parser counts lines from 0, the scanner from 1
			}
		}
		d.addError(start, "", "not YAML: "+message, "check indentation, colons and quotes on this line and the one before")
		return nil
	}
	if len(doc.Content) != 1 {
		d.addError(start, "", "the file is empty", "write "+what)
		return nil
	}
	return doc.Content[0]
}

// indentTab finds the first line that is indented with a tab. YAML readers notice it on that line or on a later
// one.
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
