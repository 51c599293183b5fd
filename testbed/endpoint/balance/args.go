package balance

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// args reads a scheme's parameters and keeps the first error.
type args struct {
	scheme string
	given  map[string]string
	err    error
}

func (a *args) bad(name, want string) {
	if a.err == nil {
		a.err = fmt.Errorf("%w: %s of %s is %q; use %s", ErrScheme, name, a.scheme, a.given[name], want)
	}
}

// known refuses parameters that a scheme does not take.
func (a *args) known(params []string) {
	for _, p := range slices.Sorted(maps.Keys(a.given)) {
		if !slices.Contains(params, p) && a.err == nil {
			a.err = fmt.Errorf("%w: %s takes no parameter %q; remove it", ErrScheme, a.scheme, p)
		}
	}
}

func (a *args) integer(name string, otherwise, low, high int) int {
	text, ok := a.given[name]
	if !ok {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		a.bad(name, fmt.Sprintf("%d to %d", low, high))
	}
	return n
}

// choice returns the option given, the first one otherwise.
func (a *args) choice(name string, options ...string) string {
	text, ok := a.given[name]
	if !ok {
		return options[0]
	}
	if !slices.Contains(options, text) {
		a.bad(name, strings.Join(options, " or "))
	}
	return text
}

func (a *args) time(name string, otherwise fabric.Time) fabric.Time {
	text, ok := a.given[name]
	if !ok {
		return otherwise
	}
	var t fabric.Time
	if err := t.UnmarshalText([]byte(text)); err != nil || t < 0 || t > 1000*fabric.Second {
		a.bad(name, "a time of up to 1000s, such as "+otherwise.String())
	}
	return t
}
