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

// Subscription asks for the states of a switch's ports.
type Subscription struct {
	// Target names the switch to a gNMI server that serves several; else empty.
	Target string
	// Heartbeat is how often a state is to be sent though it did not change; 0
	// asks for none.
	Heartbeat fabric.Time
	// Sample, if above 0, asks for the states at this interval instead of on
	// change, for targets that cannot do the latter.
	Sample fabric.Time
	// Speeds asks for the ports' speeds as well, for switches that have openconfig-if-ethernet.
	Speeds bool
	// Encoding of the values. JSON_IETF, which every target must have, is right
	// for ours.
	Encoding gnmi.Encoding
	// Ports, if any, are asked for one by one, for targets that do not take a
	// wildcard.
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

// OperStatusPath returns the path of an interface's oper-status. The name "*"
// stands for all interfaces.
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

// PortSpeedPath returns the path of an interface's speed. The name "*" stands for all interfaces.
func PortSpeedPath(name string) *gnmi.Path {
	return &gnmi.Path{Elem: []*gnmi.PathElem{
		{Name: "interfaces"}, {Name: "interface", Key: map[string]string{"name": name}},
		{Name: speedPath[0]}, {Name: speedPath[1]}, {Name: speedPath[2]},
	}}
}
