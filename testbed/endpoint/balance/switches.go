package balance

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/fabric"
)

// Defaults of the schemes that live in switches.
const (
	defaultReshuffle = 5 // rounds of switch-spray between two shuffles
	defaultGap       = 16 * fabric.Microsecond
)

// SwitchConfig is what the balancers of switches depend on.
type SwitchConfig struct {
	Buffer fabric.Bytes // of a switch
	Ports  int          // that share it
	Unit   fabric.Bytes // of the queue depth that the P4 program sees
}

// Switches returns what a scheme asks of the switches: for those of hosts, to
// hash what no label guides. Errors wrap [ErrScheme].
func Switches(name string, params map[string]string, c SwitchConfig) (controller.Balancing, error) {
	e, a, err := settled(name, params)
	if err != nil || e.switches == nil {
		return controller.Balancing{}, err
	}
	b := e.switches(a, c)
	b.Unit = c.Unit
	return b, a.err
}

func switchSpray(a *args, _ SwitchConfig) controller.Balancing {
	return controller.Balancing{
		Way: controller.RobinSpray, Reshuffle: a.integer("reshuffle", defaultReshuffle, 0, 255),
		DataOnly: a.choice("acks", "spray", "hash") == "hash",
	}
}

func switchSprayRandom(*args, SwitchConfig) controller.Balancing {
	return controller.Balancing{Way: controller.RandomSpray}
}

func ofan(*args, SwitchConfig) controller.Balancing {
	return controller.Balancing{Way: controller.DestinationRotor}
}

func jsq(a *args, c SwitchConfig) controller.Balancing {
	b := controller.Balancing{Way: controller.ShortestUplink}
	text, ok := a.given["bins"]
	if !ok || text == "none" {
		return b
	}
	fields := strings.Split(text, ",")
	if len(fields) != len(b.Bins) {
		a.bad("bins", "none, or three rising percentages such as 5,10,20")
		return b
	}
	last := 0.0
	for i, f := range fields {
		percent, err := strconv.ParseFloat(strings.TrimSpace(f), 64)
		if err != nil || !(percent > last && percent <= 100) {
			a.bad("bins", "none, or three rising percentages such as 5,10,20")
			return b
		}
		last = percent
		b.Bins[i] = max(c.Unit, fabric.Bytes(percent/100*float64(c.Buffer)/float64(max(1, c.Ports))))
	}
	return b
}

func flowlet(a *args, _ SwitchConfig) controller.Balancing {
	b := controller.Balancing{Way: controller.FlowletUplink}
	gap := a.time("gap", defaultGap)
	if gap%fabric.Microsecond != 0 {
		a.bad("gap", "whole microseconds")
	}
	b.GapUs = uint32(gap / fabric.Microsecond)
	switch a.choice("mode", "flowlet", "assigned", "per-packet") {
	case "assigned":
		b.Way = controller.AssignedUplink
	case "per-packet":
		b.Way = controller.BestUplinkByPacket
	}
	return b
}

// settled is a scheme's entry with the parameters read, unknown ones refused.
func settled(name string, params map[string]string) (entry, *args, error) {
	e, ok := find(name)
	if !ok {
		return e, nil, fmt.Errorf("%w: %q is unknown; use one of %s", ErrScheme, name, strings.Join(Names(), ", "))
	}
	a := &args{scheme: name, given: params}
	a.known(e.params)
	return e, a, a.err
}
