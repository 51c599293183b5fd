package transport

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ethereal-fabric/ethereal/roce/params"
)

// Kind is what a [Spec] describes.
type Kind uint8

// The kinds.
const (
	Transport   Kind = iota // a [Receiver]
	RateControl             // a [Control]
)

func (k Kind) String() string {
	if k == RateControl {
		return "congestion control"
	}
	return "receiver"
}

// Spec describes a transport or a rate control, so that each is one file and a line of [Specs]. The scenario's
// schema and the pages' tables are made from it.
type Spec struct {
	Kind    Kind
	Name    string
	Summary string // a phrase, for display
	Params  []Param
	Needs   Needs

	transport func(*Endpoint) transport
	control   func(*params.Reader) controlMaker
}

// controlMaker makes the rate control of an endpoint after its parameters have been read.
type controlMaker func(*Endpoint) rateControl

// Param is a parameter of a rate control.
type Param struct {
	Name    string
	Meaning string // with the default and the unit
}

// Needs lists what a transport or a rate control requires of packets, ACKs, switches, and of the part with which it
// is combined.
type Needs struct {
	// InOrder: the transport's receivers accept packets in order only.
	InOrder bool
	// ReorderWindow: the transport's receivers keep at most [Config].ReorderWindow packets; otherwise all.
	ReorderWindow bool

	// AnyOrder: the rate control needs receivers that keep packets that arrive out of order.
	AnyOrder bool
	// SendTimes: the sending time of each packet in flight is recorded.
	SendTimes bool
	// DataField and AckField are the numbers of bytes at the end of every data packet's headers, zeros when sent,
	// and behind the AETH of every ACK; at most [MaxField].
	DataField, AckField int
	Marks               bool // switches mark ECN
	OneLink             bool // hosts have one link, whose rate limits a receiver
	// Stamp writes what a switch has to say about a port into DataField of a data packet that it sends by it: hdr is all up
	// to the payload. Packets that have no such field stay as they are. Calls may be concurrent. nil: switches write
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

// Names returns the names of a kind.
func Names(k Kind) []string {
	var names []string
	for _, s := range Specs() {
		if s.Kind == k {
			names = append(names, s.Name)
		}
	}
	return names
}

// Find returns the spec of a kind by its name; the default one if the name is empty. The error wraps [ErrConfig].
func Find(k Kind, name string) (Spec, error) {
	specs := Specs()
	i := slices.IndexFunc(specs, func(s Spec) bool { return s.Kind == k && (s.Name == name || name == "") })
	if i < 0 {
		return Spec{}, fmt.Errorf("%w: %v %q is unknown; use one of %s", ErrConfig, k, name, strings.Join(Names(k), ", "))
	}
	return specs[i], nil
}

// HasParam reports whether the rate control has a parameter.
func (s Spec) HasParam(name string) bool { return slices.Contains(s.ParamNames(), name) }

// ParamNames returns the names of the parameters.
func (s Spec) ParamNames() []string {
	var names []string
	for _, p := range s.Params {
		names = append(names, p.Name)
	}
	return names
}

// Check returns an error in the parameters. It wraps [ErrConfig].
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

// Receiver is the name of a transport, which determines how its responders handle packets that arrive out of order.
// The empty one is GoBackN.
type Receiver string

// Spec returns the transport's description. The error wraps [ErrConfig].
func (r Receiver) Spec() (Spec, error) { return Find(Transport, string(r)) }

// Control is the name of a rate control, which determines how a QP reacts to congestion. The empty one is DCTCP.
type Control string

// Spec returns the rate control's description. The error wraps [ErrConfig].
func (c Control) Spec() (Spec, error) { return Find(RateControl, string(c)) }
