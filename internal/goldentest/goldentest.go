// Package goldentest compares output with files of testdata. Run a test with -rewrite to write the present output.
package goldentest

import (
	"encoding"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven" // it defines -rewrite
	"github.com/google/go-cmp/cmp"
)

// Compare compares got with the content of a file.
func Compare[T string | []byte](t testing.TB, path string, got T) {
	t.Helper()
	if flag.Lookup("rewrite").Value.String() == "true" {
		if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s (-want +got; -rewrite accepts):\n%s", path, d)
	}
}

// Scenarios runs the text files below dir. Each command of a file goes to the function that start returned for the
// file; its output, or its error, must be the text below the command. Files that rapid left after a failure are
// skipped.
func Scenarios(t *testing.T, dir string, start func() func(*datadriven.TestData) (string, error)) {
	datadriven.Walk(t, dir, func(t *testing.T, path string) {
		if strings.Contains(path, "/rapid/") {
			t.Skip("what rapid left of a failure is no scenario")
		}
		run := start()
		datadriven.RunTest(t, path, func(_ *testing.T, d *datadriven.TestData) string {
			out, err := run(d)
			if err != nil {
				return "error: " + err.Error() + "\n"
			}
			return out
		})
	})
}

// Words returns the arguments of a command that have no value, and sets now if the command has at=TIME.
func Words(d *datadriven.TestData, now encoding.TextUnmarshaler) (words []string, err error) {
	for _, a := range d.CmdArgs {
		switch {
		case a.Key == "at":
			err = now.UnmarshalText([]byte(a.Vals[0]))
		case len(a.Vals) == 0:
			words = append(words, a.Key)
		}
	}
	return words, err
}
