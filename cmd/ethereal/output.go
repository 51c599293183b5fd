package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/ethereal-fabric/ethereal/internal/strictyaml"
)

// Formats that most commands print in.
const (
	formatTable = "table" // a table for people to read
	formatJSON  = "json"
	formatYAML  = "yaml"
	formatDOT   = "dot" // a Graphviz graph
	formatCSV   = "csv"
	formatRows  = "rows" // a table with a line for each run
)

// outputFormat is the value of -o.
type outputFormat struct {
	value   string
	choices []string // the first is what is printed without the flag
}

// register gives a command the flag -o with the choices, table, json and yaml if there are none. The first is the
// default.
func (o *outputFormat) register(c *cobra.Command, choices ...string) {
	if len(choices) == 0 {
		choices = []string{formatTable, formatJSON, formatYAML}
	}
	o.value, o.choices = choices[0], choices
	c.Flags().VarP(o, "output", "o", "print as `FORMAT`; "+strings.Join(choices, ", "))
	// The only error is of a flag that does not exist.
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(choices, cobra.ShellCompDirectiveNoFileComp))
}

// String returns the format.
func (o *outputFormat) String() string { return o.value }

// Set takes one of the choices.
func (o *outputFormat) Set(text string) error {
	if !slices.Contains(o.choices, text) {
		if strings.ContainsAny(text, "./") {
			return fmt.Errorf("%q is a file; write --out %s (-o is a format: %s)", text, text, strings.Join(o.choices, ", "))
		}
		return fmt.Errorf("%q is unknown; %s", text, strictyaml.Choose(text, o.choices))
	}
	o.value = text
	return nil
}

// Type names the value in messages.
func (o *outputFormat) Type() string { return "format" }

// forPeople reports whether the format is the one for people.
func (o *outputFormat) forPeople() bool { return o.value == formatTable }

// write prints a value as JSON or YAML, with the same keys in both: those of its JSON.
func (o *outputFormat) write(w io.Writer, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err == nil && o.value == formatYAML {
		var plain any
		if err = yaml.Unmarshal(text, &plain); err == nil { // JSON is YAML, and yaml keeps integers as they are
			text, err = yaml.Marshal(plain)
		}
	} else {
		text = append(text, '\n')
	}
	if err == nil {
		_, err = w.Write(text)
	}
	if err != nil {
		return failedf("printing: %w", err)
	}
	return nil
}
