package scenario

import (
	"errors"
	"fmt"
	"strings"
)

// errSchemeText describes the form of a scheme on a command line.
var errSchemeText = errors.New("write a name, or a name with parameters as in switch-spray(reshuffle=0,acks=hash)")

// ParseScheme reads a scheme in the form of [Scheme.String], its parameters in any order. A comma within a value is
// part of it, as in jsq(bins=5,10,20). [Scenario.Validate] checks whether the scheme exists.
func ParseScheme(text string) (Scheme, error) {
	name, inside, with := strings.Cut(strings.TrimSpace(text), "(")
	s := Scheme{Name: strings.TrimSpace(name)}
	if s.Name == "" {
		return Scheme{}, fmt.Errorf("%q names no scheme; %w", text, errSchemeText)
	}
	if !with {
		return s, nil
	}
	inside, closed := strings.CutSuffix(inside, ")")
	if !closed {
		return Scheme{}, fmt.Errorf("%q does not end with its parenthesis; %w", text, errSchemeText)
	}
	s.Params = map[string]string{}
	last := ""
	for part := range strings.SplitSeq(inside, ",") {
		key, value, ok := strings.Cut(part, "=")
		key = strings.TrimSpace(key)
		_, twice := s.Params[key]
		switch {
		case !ok && last != "":
			s.Params[last] += "," + strings.TrimSpace(part)
			continue
		case !ok || key == "":
			return Scheme{}, fmt.Errorf("%q: %q is no parameter; %w", text, part, errSchemeText)
		case twice:
			return Scheme{}, fmt.Errorf("%q: %s is there twice; keep one", text, key)
		}
		last, s.Params[key] = key, strings.TrimSpace(value)
	}
	for key, value := range s.Params {
		if bare, ok := strings.CutPrefix(value, `"`); ok && strings.HasSuffix(bare, `"`) { // as a scenario has it
			s.Params[key] = strings.TrimSuffix(bare, `"`)
		}
	}
	return s, nil
}

// SplitSchemes splits a list of schemes at its commas, except those within parentheses.
func SplitSchemes(text string) []string {
	var out []string
	depth, from := 0, 0
	for i, c := range text {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth <= 0:
			out = append(out, strings.TrimSpace(text[from:i]))
			from = i + 1
		}
	}
	return append(out, strings.TrimSpace(text[from:]))
}
