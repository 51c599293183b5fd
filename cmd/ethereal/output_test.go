package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// TestOutputFormats: JSON and YAML have the same keys and values, big integers too.
func TestOutputFormats(t *testing.T) {
	in := map[string]any{"epoch": uint64(1<<63 + 5), "names": []string{"tor0"}, "up": true}
	var asJSON, asYAML map[string]any
	for format, into := range map[string]*map[string]any{formatJSON: &asJSON, formatYAML: &asYAML} {
		o := outputFormat{value: format}
		var b bytes.Buffer
		if err := o.write(&b, in); err != nil {
			t.Fatal(err)
		}
		d := json.NewDecoder(bytes.NewReader(b.Bytes()))
		d.UseNumber()
		err := d.Decode(into)
		if format == formatYAML {
			err = yaml.Unmarshal(b.Bytes(), into)
		}
		if err != nil {
			t.Fatalf("%s: %v\n%s", format, err, b.String())
		}
	}
	if got := asJSON["epoch"].(json.Number).String(); got != "9223372036854775813" {
		t.Errorf("JSON: epoch %s", got)
	}
	if got := asYAML["epoch"]; got != uint64(9223372036854775813) {
		t.Errorf("YAML: epoch %v (%T)", got, got)
	}
	delete(asJSON, "epoch")
	delete(asYAML, "epoch")
	if d := cmp.Diff(asJSON, asYAML); d != "" {
		t.Errorf("JSON and YAML differ:\n%s", d)
	}
}

// TestVersionCommand: version says in all formats what --version says, and the manual has a page for each command.
func TestVersionCommand(t *testing.T) {
	var out bytes.Buffer
	a := &app{stdout: &out, stderr: &out, version: "v1.2.3 go1.26"}
	if code := a.execute(t.Context(), []string{"version"}); code != exitOK || !strings.HasPrefix(out.String(), "ethereal v1.2.3 go1.26 ") {
		t.Errorf("exit code %d: %s", code, out.String())
	}
	out.Reset()
	var said struct{ Version, Build, OS, Arch string }
	if code := a.execute(t.Context(), []string{"version", "-o", "json"}); code != exitOK {
		t.Fatalf("exit code %d: %s", code, out.String())
	}
	if err := json.Unmarshal(out.Bytes(), &said); err != nil || said.Version != a.version || said.Arch == "" {
		t.Errorf("%v: %s", err, out.String())
	}
	dir := t.TempDir()
	if code := a.execute(t.Context(), []string{"man", dir}); code != exitOK {
		t.Fatalf("exit code %d: %s", code, out.String())
	}
	for _, page := range []string{"ethereal.1", "ethereal-run.1", "ethereal-host-preflight.1"} {
		if text, err := os.ReadFile(filepath.Join(dir, page)); err != nil || !bytes.Contains(text, []byte("v1.2.3")) {
			t.Errorf("%s: %v", page, err)
		}
	}
}
