package transport

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ethereal-fabric/ethereal/roce/params"
)

// Kind is what a [Spec] describes: a transport or a rate control.
type Kind uint8

// The kinds.
const (
	Transport   Kind = iota // its names are values of [Receiver]
	RateControl             // its names are values of [Control]
)

func (k Kind) String() string {
	if k == RateControl {
		return "congestion control"
	}
	return "receiver"
}

// Spec describes a transport or a rate control: its name, its parameters, and what it requires. The scenario's schema
// and the tables of the documentation are generated from it.
type Spec struct {
	Kind    Kind
	Name    string
	Summary string // one-phrase description of the rate control, for tables
	Params  []Param
	Needs   Needs

	transport func(*Endpoint) reliability
	control   func(*params.Reader) controlMaker
}

// controlMaker makes the rate control of an endpoint after its parameters have been read.
type controlMaker func(*Endpoint) rateControl

// Param is a parameter of a rate control.
type Param struct {
	Name    string
	Meaning string // description of the parameter, with its default and unit
}

// Needs lists what a transport or a rate control requires of packets, ACKs and switches, and of the transport or rate
// control used with it.
type Needs struct {
	// InOrder: the transport's receivers accept packets only in order.
	InOrder bool
	// ReorderWindow: the transport's receivers keep at most [Config].ReorderWindow packets that arrive out of order;
	// otherwise they keep all.
	ReorderWindow bool

	// AnyOrder: the rate control requires receivers that keep packets that arrive out of order.
	AnyOrder bool
	// SendTimes: the endpoint must record when each packet in flight was sent.
	SendTimes bool
	// DataField is the number of bytes, zero when sent, that the rate control needs at the end of every data packet's
	// headers; AckField the number behind the AETH of every ACK. Both are at most [MaxField].
	DataField, AckField int
	Marks               bool // switches must set ECN marks
	OneLink             bool // each host must have one link, whose rate limits what it receives
	// Stamp writes the state of a switch's port into the DataField of a data packet that leaves by it. hdr is the
	// packet up to its payload; packets without the field are not changed. Calls may be concurrent. nil: switches write
	// nothing.
	Stamp func(hdr []byte, h Hop)
}

// MaxField is the largest [Needs].DataField and AckField.
const MaxField = telemetrySize

// Specs returns all transports and rate controls. The first of a kind is the default.
func Specs() []Spec {
	return []Spec{
		goBackNSpec(), selectiveRepeatSpec(), idealSpec(), falconSpec(),
		dctcpSpec(), lineRateSpec(), dcqcnSpec(), nsccSpec(), swiftSpec(), rcccSpec(), hpccSpec(), csigSpec(), srdSpec(),
	}
}

// Names returns the names of all transports, or of all rate controls.
func Names(k Kind) []string {
	var names []string
	for _, s := range Specs() {
		if s.Kind == k {
			names = append(names, s.Name)
		}
	}
	return names
}

// Find returns the transport or rate control with a name; the default one if name is empty. The error wraps
// [ErrConfig].
func Find(k Kind, name string) (Spec, error) {
	specs := Specs()
	i := slices.IndexFunc(specs, func(s Spec) bool { return s.Kind == k && (s.Name == name || name == "") })
	if i < 0 {
		return Spec{}, fmt.Errorf("%w: %v %q is unknown; use one of %s", ErrConfig, k, name, strings.Join(Names(k), ", "))
	}
	return specs[i], nil
}

// HasParam reports whether s has a parameter of that name.
func (s Spec) HasParam(name string) bool { return slices.Contains(s.ParamNames(), name) }

// ParamNames returns the names of the parameters.
func (s Spec) ParamNames() []string {
	var names []string
	for _, p := range s.Params {
		names = append(names, p.Name)
	}
	return names
}

// Check returns an error if a given parameter is unknown or its value is wrong. The error wraps [ErrConfig].
func (s Spec) Check(given map[string]string) error {
	_, err := s.read(given)
	return err
}

// read reads parameters for an endpoint.
func (s Spec) read(given map[string]string) (controlMaker, error) {
	a := params.New(ErrConfig, s.Name, given, s.ParamNames())
	newControl := s.control(a)
	return newControl, a.Err()
}

// Receiver is the name of a transport: how responders handle packets that arrive out of order. The empty one is
// [GoBackN].
type Receiver string

// Spec returns the description of the transport of that name. The error wraps [ErrConfig].
func (r Receiver) Spec() (Spec, error) { return Find(Transport, string(r)) }

// Control is the name of a rate control: how a QP reacts to congestion. The empty one is [DCTCP].
type Control string

// Spec returns the description of the rate control of that name. The error wraps [ErrConfig].
func (c Control) Spec() (Spec, error) { return Find(RateControl, string(c)) }
