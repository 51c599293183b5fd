package main

import (
	"strings"

	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// schemeList is the value of a flag that names schemes: with commas between them,
// or given several times. Commas within parentheses are of a scheme's parameters.
type schemeList []string

// String returns the list as a flag's value.
func (l *schemeList) String() string { return strings.Join(*l, ",") }

// Set adds the schemes of one value.
func (l *schemeList) Set(text string) error {
	if strings.TrimSpace(text) == "" {
		return nil // as an unset variable of a shell has it
	}
	*l = append(*l, scenario.SplitSchemes(text)...)
	return nil
}

// Type names the value in messages.
func (l *schemeList) Type() string { return "schemes" }

// schemeCounters returns a counter for each scheme of the list, by how results write it.
func (l *schemeList) schemeCounters() (map[string]int, error) {
	out := map[string]int{}
	for _, text := range *l {
		s, err := scenario.ParseScheme(text)
		if err != nil {
			return nil, err
		}
		out[s.String()] = 0
	}
	return out, nil
}
