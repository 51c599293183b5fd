package scheme

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ethereal-fabric/ethereal/testbed/nic"
)

// Names of the schemes.
const (
	Ethereal = "ethereal"
	ECMP     = "ecmp"
	MPRDMA   = "mp-rdma"
	Spray    = "spray"
	REPS     = "reps"
	DRB      = "drb"
	Hopper   = "hopper"
)

// ErrScheme is wrapped by every error about a scheme's name or parameters.
var ErrScheme = errors.New("scheme: bad scheme")

// maker makes a host's balancer, its parameters being settled.
type maker func(c Config) (Host, error)

// entry is what there is to know about a scheme.
type entry struct {
	name     string
	params   []string
	receiver nic.Receiver // what its authors assume
	settle   func(a *args) maker
}

func entries() []entry {
	return []entry{
		{Ethereal, nil, nic.GoBackN, func(*args) maker { return newEthereal }},
		{ECMP, nil, nic.GoBackN, func(*args) maker { return hashedBy(1) }},
		{MPRDMA, []string{"ways"}, nic.GoBackN, func(a *args) maker {
			return hashedBy(a.integer("ways", defaultWays, 1, maxWays))
		}},
		{Spray, []string{"mode", "entropy"}, nic.Ideal, settleSpray},
		{REPS, []string{"entropies", "explore", "freeze", "entropy"}, nic.Ideal, settleREPS},
		{DRB, nil, nic.Ideal, func(*args) maker { return newDRB }},
		{Hopper, []string{"entropy"}, nic.SelectiveRepeat, settleHopper},
	}
}

func find(name string) (entry, bool) {
	all := entries()
	i := slices.IndexFunc(all, func(e entry) bool { return e.name == name })
	if i < 0 {
		return entry{}, false
	}
	return all[i], true
}

// Names returns the names of all schemes.
func Names() []string {
	var names []string
	for _, e := range entries() {
		names = append(names, e.name)
	}
	return names
}

// Params returns the names of the parameters a scheme takes. ok is false for an
// unknown scheme.
func Params(name string) (params []string, ok bool) {
	e, ok := find(name)
	return e.params, ok
}

// Receiver returns what a scheme's authors assume of receivers; go-back-N for an
// unknown scheme.
func Receiver(name string) nic.Receiver {
	e, _ := find(name)
	return e.receiver
}

// Check reports what is wrong with a scheme's name or parameters. The error
// wraps [ErrScheme].
func Check(name string, params map[string]string) error {
	_, err := settle(name, params)
	return err
}

// New returns a host's balancer. Errors about name and params wrap
// [ErrScheme], others come from the configuration.
func New(name string, params map[string]string, c Config) (Host, error) {
	m, err := settle(name, params)
	if err != nil {
		return nil, err
	}
	return m(c)
}

func settle(name string, params map[string]string) (maker, error) {
	e, ok := find(name)
	if !ok {
		return nil, fmt.Errorf("%w: %q is unknown; use one of %s", ErrScheme, name, strings.Join(Names(), ", "))
	}
	for _, p := range slices.Sorted(maps.Keys(params)) {
		if !slices.Contains(e.params, p) {
			return nil, fmt.Errorf("%w: %s takes no parameter %q; remove it", ErrScheme, name, p)
		}
	}
	a := args{scheme: name, given: params}
	m := e.settle(&a)
	return m, a.err
}
