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

// Reader reads the named parameters of a load balancer or rate control from their text, and keeps the first error.
type Reader struct {
	of    string
	given map[string]string
	wraps error
	err   error
}

// New returns a reader of the parameters given to the part named `of`, which may have the names known. Its error wraps
// the error `wraps`.
func New(wraps error, of string, given map[string]string, known []string) *Reader {
	r := &Reader{of: of, given: given, wraps: wraps}
	for _, p := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(known, p) && r.err == nil {
			r.err = fmt.Errorf("%w: %s takes no parameter %q; remove it", wraps, of, p)
		}
	}
	return r
}

// Err returns the first error that reading has found, or nil.
func (r *Reader) Err() error { return r.err }

// Bad records that a parameter's value is wrong; want says what would be right.
func (r *Reader) Bad(name, want string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s of %s is %q; use %s", r.wraps, name, r.of, r.given[name], want)
	}
}

// Text returns a parameter's text; given is false if it was left out.
func (r *Reader) Text(name string) (text string, given bool) {
	text, given = r.given[name]
	return text, given
}

// Integer returns the value of an integer parameter, or `otherwise` if it was left out. A value outside low..high is an
// error.
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

// Choice returns the value of a parameter that is one of the options; the first option if it was left out.
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

// Time returns the value of a duration up to 1000 s, or `otherwise` if it was left out. The error for a bad value shows
// example.
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

// Rate returns the value of a transmission rate above 0, or `otherwise` if it was left out. The error for a bad value
// shows example.
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
