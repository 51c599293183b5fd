package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
)

// Formats that most commands print in.
const (
	formatTable = "table" // for people
	formatJSON  = "json"
	formatYAML  = "yaml"
	formatDOT   = "dot" // a Graphviz graph
)

// outputFormat is the value of -o.
type outputFormat struct {
	value   string
	choices []string // the first is what is printed without the flag
}

// register gives a command the flag -o with the choices, table, json and yaml if there are none. The first is the default.
func (o *outputFormat) register(c *cobra.Command, choices ...string) {
	if len(choices) == 0 {
		choices = []string{formatTable, formatJSON, formatYAML}
	}
	o.value, o.choices = choices[0], choices
	c.Flags().VarP(o, "output", "o", "print as `FORMAT`: "+strings.Join(choices, ", "))
	// The only error is of a flag that does not exist.
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(choices, cobra.ShellCompDirectiveNoFileComp))
}

// String returns the format.
func (o *outputFormat) String() string { return o.value }

// Set takes one of the choices.
func (o *outputFormat) Set(text string) error {
	if !slices.Contains(o.choices, text) {
		return fmt.Errorf("%q is unknown; write one of %s", text, strings.Join(o.choices, ", "))
	}
	o.value = text
	return nil
}

// Type names the value in messages.
func (o *outputFormat) Type() string { return "format" }

// people reports whether the format is the one for people.
func (o *outputFormat) people() bool { return o.value == formatTable }

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
		return failure("printing: %w", err)
	}
	return nil
}

// retired is a flag of earlier versions: it says what to write today.
type retired string

// retire gives a command a hidden flag that is refused with what to write in its place. A flag with a value has one still.
func retire(c *cobra.Command, name, instead string, hasValue bool) {
	r := retired(instead)
	f := c.Flags().VarPF(&r, name, "", "")
	f.Hidden = true
	if !hasValue {
		f.NoOptDefVal = "true"
	}
}

func (r *retired) String() string   { return "" }
func (r *retired) Set(string) error { return fmt.Errorf("it is gone; write %s", string(*r)) }
func (r *retired) Type() string     { return "" }
