package linkstate

import (
	"github.com/openconfig/gnmi/proto/gnmi"

	"github.com/ethereal-fabric/ethereal/fabric"
)

var speedPath = []string{"ethernet", "state", "port-speed"}

// PortSpeedPath returns the path of an interface's speed. The name "*" stands for all interfaces.
func PortSpeedPath(name string) *gnmi.Path {
	return &gnmi.Path{Elem: []*gnmi.PathElem{
		{Name: "interfaces"}, {Name: "interface", Key: map[string]string{"name": name}},
		{Name: speedPath[0]}, {Name: speedPath[1]}, {Name: speedPath[2]},
	}}
}

// decodeSpeed returns what an update says of a port's speed. ok is false if it says nothing of any.
func decodeSpeed(u *gnmi.Update, rest []string) (rate fabric.Rate, ok bool, err error) {
	if len(rest) == 0 || !within(rest, speedPath) {
		return 0, false, nil
	}
	name, ok, err := value(u.GetVal(), speedPath[len(rest):])
	if err == nil && ok {
		rate, err = fabric.ParseSpeed(name)
	}
	return rate, ok, err
}
