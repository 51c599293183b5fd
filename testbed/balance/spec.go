package balance

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/roce/params"
	"github.com/ethereal-fabric/ethereal/roce/transport"
)

// ErrScheme is wrapped by every error about a scheme's name or parameters.
var ErrScheme = errors.New("scheme: bad scheme")

// FlowModel is how a scheme's queue pairs use paths, for the simulation without packets.
type FlowModel uint8

// Flow models.
const (
	NoFlowModel FlowModel = iota // it depends on queues, so that it cannot be simulated without packets
	Labelled                     // one path per queue pair, by its label, which the host changes
	Hashed                       // one path per queue pair, chosen by the switches' hash
	Spread                       // flow-level model: a flow's bytes use all paths evenly
)

// Spec describes a load-balancing scheme: its name, parameters, and what it requires. A new scheme needs one file and a
// line of [Specs].
type Spec struct {
	Name    string
	Summary string // one-phrase description of the scheme, for tables
	Params  []transport.Param
	// Receiver is the transport, and Control the rate control, that its authors assume; an empty control: none.
	Receiver transport.Receiver
	Control  transport.Control
	// DetectsLate says that its authors' hosts detect losses by time; see [transport.Config].LateLoss.
	DetectsLate bool
	// Flows is its model without packets.
	Flows FlowModel
	// Holds says that the scheme's hosts implement [PausingHost].
	Holds bool
	// Suspicion says that it has the parameter suspicion; see [Spec.SharesSuspicion].
	Suspicion bool

	// host makes the hosts' balancers; nil: hosts behave as those of ecmp.
	host func(a *params.Reader) hostFactory
	// source returns what source switches do; nil: nothing.
	source func(a *params.Reader) SwitchLabelling
	// switches returns the switches' configuration; nil: switches hash packets without label.
	switches func(a *params.Reader, c SwitchConfig) controller.Balancing
}

// hostFactory makes the balancer of a host after its parameters have been read.
type hostFactory func(c Config) (Host, error)

// Specs returns all schemes.
func Specs() []Spec {
	return []Spec{
		etherealSpec(), ecmpSpec(), mprdmaSpec(), spraySpec(), repsSpec(), drbSpec(), hopperSpec(), flowcutSpec(), lptSpec(), mrcSpec(), srdSpec(), falconSpec(),
		switchSpraySpec(), switchSprayRandomSpec(), jsqSpec(), flowletSpec(), ofanSpec(), ugalSpec(),
	}
}

// Names returns the names of all schemes.
func Names() []string {
	var names []string
	for _, s := range Specs() {
		names = append(names, s.Name)
	}
	return names
}

// Find returns a scheme by its name. The error wraps [ErrScheme].
func Find(name string) (Spec, error) {
	all := Specs()
	i := slices.IndexFunc(all, func(s Spec) bool { return s.Name == name })
	if i < 0 {
		return Spec{}, fmt.Errorf("%w: %q is unknown; use one of %s", ErrScheme, name, strings.Join(Names(), ", "))
	}
	return all[i], nil
}

// ParamNames returns the names of the scheme's parameters.
func (s Spec) ParamNames() []string {
	var names []string
	for _, p := range s.Params {
		names = append(names, p.Name)
	}
	return names
}

// SwitchLabelling is how the switches above hosts label the hosts' packets before the P4 program sees them, in the
// virtual world.
type SwitchLabelling struct {
	Adaptive bool // switches label unlabelled packets by the lengths of their queues
	ByFlow   bool // they label all packets of a queue pair as its first
}

// Source returns how the switches above hosts label packets, for parameters that [Spec.Check] accepts.
func (s Spec) Source(given map[string]string) SwitchLabelling {
	if s.source == nil {
		return SwitchLabelling{}
	}
	return s.source(s.args(given))
}

// InSwitches reports whether switches choose paths, not hosts.
func (s Spec) InSwitches() bool { return s.switches != nil }

// Reorders reports whether switches may send the packets of any queue pair on several paths.
func (s Spec) Reorders(given map[string]string) bool {
	source := s.Source(given)
	return s.InSwitches() || source.Adaptive && !source.ByFlow
}

// SharesSuspicion reports whether agents report the paths on which they time out, so that a controller finds the
// link and notifies all agents.
func (s Spec) SharesSuspicion(given map[string]string) bool {
	return s.Suspicion && given["suspicion"] == "on"
}

// Check returns an error in the parameters. It wraps [ErrScheme].
func (s Spec) Check(given map[string]string) error {
	_, err := s.read(given)
	return err
}

// New returns a host's balancer. Errors about parameters wrap [ErrScheme]; others come from the configuration.
func (s Spec) New(given map[string]string, c Config) (Host, error) {
	build, err := s.read(given)
	if err != nil {
		return nil, err
	}
	return build(c)
}

// read reads parameters for a host.
func (s Spec) read(given map[string]string) (hostFactory, error) {
	a := s.args(given)
	build := hashedBy(1)
	if s.host != nil {
		build = s.host(a)
	}
	var fair Config
	s.readFair(a, &fair)
	if entropy, _ := a.Text("entropy"); fair.takesNotifications && entropy == byPort {
		a.Bad(newsParam, "ignored with entropy: port, whose packets choose no path")
	}
	if s.source != nil { // to report its errors
		s.source(a)
	}
	if s.switches != nil {
		s.switches(a, SwitchConfig{Ports: 1, Unit: 1})
	}
	return func(c Config) (Host, error) {
		c.takesNotifications = fair.takesNotifications
		return build(c)
	}, a.Err()
}

// Switches returns how switches choose uplinks, for the given parameters. Errors wrap [ErrScheme].
func (s Spec) Switches(given map[string]string, c SwitchConfig) (controller.Balancing, error) {
	a := s.args(given)
	if s.switches == nil || a.Err() != nil {
		return controller.Balancing{}, a.Err()
	}
	b := s.switches(a, c)
	b.Unit = c.Unit
	return b, a.Err()
}

func (s Spec) args(given map[string]string) *params.Reader {
	return params.New(ErrScheme, s.Name, given, s.ParamNames())
}
