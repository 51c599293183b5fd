package balance

import (
	"errors"
	"slices"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint"
)

// Names of the schemes.
const (
	Ethereal = "ethereal"
	ECMP     = "ecmp"
	MPRDMA   = "mp-rdma" // static
	Spray    = "spray"
	REPS     = "reps"
	DRB      = "drb"
	Hopper   = "hopper"

	MPRDMAClocked = "mp-rdma-clocked"

	SwitchSpray       = "switch-spray"
	SwitchSprayRandom = "switch-spray-random"
	JSQ               = "jsq"
	Flowlet           = "flowlet"
	Ofan              = "ofan"
)

// ErrScheme is wrapped by every error about a scheme's name or parameters.
var ErrScheme = errors.New("scheme: bad scheme")

// maker makes a host's balancer, its parameters being settled.
type maker func(c Config) (Host, error)

// entry is what there is to know about a scheme.
type entry struct {
	name     string
	params   []string
	receiver endpoint.Receiver // what its authors assume
	settle   func(a *args) maker
	// switches is what the scheme is in switches; nil: table ecmp.
	switches func(a *args, c SwitchConfig) controller.Balancing
}

func entries() []entry {
	return []entry{
		{Ethereal, []string{"suspicion"}, endpoint.GoBackN, settleEthereal, nil},
		{ECMP, nil, endpoint.GoBackN, func(*args) maker { return hashedBy(1) }, nil},
		{MPRDMA, []string{"ways"}, endpoint.GoBackN, func(a *args) maker {
			return hashedBy(a.integer("ways", defaultWays, 1, maxWays))
		}, nil},
		{MPRDMAClocked, []string{"entropy"}, endpoint.SelectiveRepeat, settleClocked, nil},
		{Spray, []string{"mode", "entropy"}, endpoint.Ideal, settleSpray, nil},
		{REPS, []string{"entropies", "explore", "freeze", "entropy"}, endpoint.Ideal, settleREPS, nil},
		{DRB, nil, endpoint.Ideal, func(*args) maker { return newDRB }, nil},
		{Hopper, []string{"entropy", "wait"}, endpoint.SelectiveRepeat, settleHopper, nil},
		{SwitchSpray, []string{"acks", "reshuffle"}, endpoint.Ideal, inSwitches(switchSpray), switchSpray},
		{SwitchSprayRandom, nil, endpoint.Ideal, inSwitches(switchSprayRandom), switchSprayRandom},
		{JSQ, []string{"bins"}, endpoint.Ideal, inSwitches(jsq), jsq},
		{Flowlet, []string{"mode", "gap"}, endpoint.SelectiveRepeat, inSwitches(flowlet), flowlet},
		{Ofan, nil, endpoint.Ideal, inSwitches(ofan), ofan},
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
func Receiver(name string) endpoint.Receiver {
	e, _ := find(name)
	return e.receiver
}

// Reorders reports whether a scheme has switches that may send the packets of a
// queue pair by several paths.
func Reorders(name string) bool {
	e, _ := find(name)
	return e.switches != nil
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
	e, a, err := settled(name, params)
	if err != nil {
		return nil, err
	}
	m := e.settle(a)
	return m, a.err
}

// inSwitches is a scheme whose hosts do as ECMP's do. Its parameters are read
// for their errors.
func inSwitches(read func(*args, SwitchConfig) controller.Balancing) func(a *args) maker {
	return func(a *args) maker {
		read(a, SwitchConfig{Ports: 1, Unit: 1})
		return hashedBy(1)
	}
}
