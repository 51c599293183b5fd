package linkstate

import (
	"errors"
	"fmt"
	"math"

	"github.com/openconfig/gnmi/proto/gnmi"
	"google.golang.org/protobuf/proto"

	"github.com/ethereal-fabric/ethereal/controller/targets"
	"github.com/ethereal-fabric/ethereal/fabric"
)

// PortName returns the name of a port's interface.
func PortName(p fabric.PortNo) string { return (*targets.PortMap)(nil).Name(p) }

// ErrSubscription is wrapped by the errors of [Subscription.Request].
var ErrSubscription = errors.New("linkstate: bad subscription")

// Subscription requests the states of a switch's ports.
type Subscription struct {
	// Target names the switch to a gNMI server that serves several; otherwise empty.
	Target string
	// Heartbeat is the interval at which unchanged states are repeated; 0: never.
	Heartbeat fabric.Time
	// Sample, if above 0, requests the states at this interval instead of on change, for targets that do not
	// support on-change.
	Sample fabric.Time
	// Speeds also requests the ports' speeds, for switches with openconfig-if-ethernet.
	Speeds bool
	// Encoding is the encoding of the values. JSON_IETF, which every target must support, is right for our switch.
	Encoding gnmi.Encoding
	// Ports, if any, are requested one by one, for targets without wildcard support.
	Ports []fabric.PortNo
	// Names maps the ports to the switch's interfaces. Nil: Ethernet1, ...
	Names *targets.PortMap
}

func nanos(field string, t fabric.Time) (uint64, error) {
	if t < 0 || t > 0 && t < fabric.Nanosecond {
		return 0, fmt.Errorf("%w: %s: %v is neither 0 nor at least 1ns", ErrSubscription, field, t)
	}
	return uint64(t / fabric.Nanosecond), nil
}

// Request returns the first message of the Subscribe stream.
func (s Subscription) Request() (*gnmi.SubscribeRequest, error) {
	heartbeat, err := nanos("Heartbeat", s.Heartbeat)
	if err != nil {
		return nil, err
	}
	sample, err := nanos("Sample", s.Sample)
	if err != nil {
		return nil, err
	}
	list := &gnmi.SubscriptionList{Mode: gnmi.SubscriptionList_STREAM, Encoding: s.Encoding}
	if s.Target != "" {
		list.Prefix = &gnmi.Path{Target: s.Target}
	}
	names := []string{"*"}
	if len(s.Ports) > 0 {
		names = names[:0]
		for _, p := range s.Ports {
			names = append(names, s.Names.Name(p))
		}
	}
	for _, name := range names {
		sub := &gnmi.Subscription{Path: OperStatusPath(name), Mode: gnmi.SubscriptionMode_ON_CHANGE, HeartbeatInterval: heartbeat}
		if sample > 0 {
			sub.Mode, sub.SampleInterval = gnmi.SubscriptionMode_SAMPLE, sample
		}
		list.Subscription = append(list.Subscription, sub)
		if s.Speeds {
			speed := proto.CloneOf(sub)
			speed.Path = PortSpeedPath(name)
			list.Subscription = append(list.Subscription, speed)
		}
	}
	return &gnmi.SubscribeRequest{Request: &gnmi.SubscribeRequest_Subscribe{Subscribe: list}}, nil
}

// OperStatusPath returns the path of an interface's oper-status. The name "*" means all interfaces.
func OperStatusPath(name string) *gnmi.Path { return interfacePath(name, "state", "oper-status") }

// interfacePath returns the path of a leaf of an interface.
func interfacePath(name, container, leaf string) *gnmi.Path {
	return &gnmi.Path{Elem: []*gnmi.PathElem{
		{Name: "interfaces"}, {Name: "interface", Key: map[string]string{"name": name}}, {Name: container}, {Name: leaf},
	}}
}

// farFuture is a deadline that never comes.
const farFuture = fabric.Time(math.MaxInt64)

var speedPath = []string{"ethernet", "state", "port-speed"}

// PortSpeedPath returns the path of an interface's speed. The name "*" means all interfaces.
func PortSpeedPath(name string) *gnmi.Path {
	return &gnmi.Path{Elem: []*gnmi.PathElem{
		{Name: "interfaces"}, {Name: "interface", Key: map[string]string{"name": name}},
		{Name: speedPath[0]}, {Name: speedPath[1]}, {Name: speedPath[2]},
	}}
}
