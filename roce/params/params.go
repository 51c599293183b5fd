// Package params reads the parameters that a scenario gives a scheme or a rate control: names and values as text.
package params

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Reader reads parameters and keeps the first error.
type Reader struct {
	of    string
	given map[string]string
	wraps error
	err   error
}

// New returns a reader of what was given to `of`, which takes the known parameters. Its error wraps one.
func New(wraps error, of string, given map[string]string, known []string) *Reader {
	r := &Reader{of: of, given: given, wraps: wraps}
	for _, p := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(known, p) && r.err == nil {
			r.err = fmt.Errorf("%w: %s takes no parameter %q; remove it", wraps, of, p)
		}
	}
	return r
}

// Err returns the first error.
func (r *Reader) Err() error { return r.err }

// Bad refuses the value of a parameter, and says what would be right.
func (r *Reader) Bad(name, want string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s of %s is %q; use %s", r.wraps, name, r.of, r.given[name], want)
	}
}

// Text returns a parameter as it was given.
func (r *Reader) Text(name string) (text string, given bool) {
	text, given = r.given[name]
	return text, given
}

// Integer returns a parameter's value, an integer, or otherwise if it was not given. A value that is not from low to high
// is an error of the reader.
func (r *Reader) Integer(name string, otherwise, low, high int) int {
	text, ok := r.given[name]
	if !ok {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		r.Bad(name, fmt.Sprintf("%d to %d", low, high))
	}
	return n
}

// Choice returns the option given, the first one otherwise.
func (r *Reader) Choice(name string, options ...string) string {
	text, ok := r.given[name]
	if !ok {
		return options[0]
	}
	if !slices.Contains(options, text) {
		r.Bad(name, strings.Join(options, " or "))
	}
	return text
}

// Time returns a time of up to 1000 s; example is one of that size.
func (r *Reader) Time(name string, otherwise, example fabric.Time) fabric.Time {
	text, ok := r.given[name]
	if !ok {
		return otherwise
	}
	var t fabric.Time
	if err := t.UnmarshalText([]byte(text)); err != nil || t < 0 || t > 1000*fabric.Second {
		r.Bad(name, "a time of up to 1000s, such as "+example.String())
	}
	return t
}

// Rate returns a rate above 0; example is one of that size.
func (r *Reader) Rate(name string, otherwise, example fabric.Rate) fabric.Rate {
	text, ok := r.given[name]
	if !ok {
		return otherwise
	}
	var v fabric.Rate
	if err := v.UnmarshalText([]byte(text)); err != nil || v <= 0 {
		r.Bad(name, "a rate such as "+example.String())
	}
	return v
}
