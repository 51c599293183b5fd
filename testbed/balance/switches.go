package balance

import (
	"strconv"
	"strings"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/params"
	"github.com/ethereal-fabric/ethereal/roce/transport"
)

// Defaults of the switches' schemes.
const (
	defaultReshuffle = 5 // rounds of switch-spray between two shuffles
	defaultGap       = 16 * fabric.Microsecond
)

// SwitchConfig is the properties of a switch on which its balancer's parameters depend.
type SwitchConfig struct {
	Buffer fabric.Bytes // shared buffer of a switch
	Ports  int          // number of ports that share the buffer
	Unit   fabric.Bytes // unit of the queue depth in the P4 program
}

// Names of the switches' schemes.
const (
	SwitchSpray       = "switch-spray"
	SwitchSprayRandom = "switch-spray-random"
	JSQ               = "jsq"
	Flowlet           = "flowlet"
	Ofan              = "ofan"
)

func switchSpraySpec() Spec {
	return Spec{
		Name: SwitchSpray, Summary: "switches send packets by all uplinks in turn",
		Params: []transport.Param{
			{Name: "acks", Meaning: "spray, hash: packets other than data are sprayed too, or use ECMP"},
			{Name: "reshuffle", Meaning: "rounds after which the order is shuffled; 5 when absent, 0 for never"}, lossDoc, convergenceDoc,
		},
		Receiver: transport.Ideal, Flows: Spread, switches: switchSpray,
	}
}

func switchSprayRandomSpec() Spec {
	return Spec{
		Name: SwitchSprayRandom, Summary: "switches choose a random uplink for every packet",
		Params: []transport.Param{lossDoc, convergenceDoc}, Receiver: transport.Ideal, Flows: Spread, switches: switchSprayRandom,
	}
}

func jsqSpec() Spec {
	return Spec{
		Name: JSQ, Summary: "switches choose the uplink with the shortest queue for every packet",
		Params: []transport.Param{
			{Name: "bins", Meaning: "none, or three percentages of a port's share of the buffer, as in \"5,10,20\": queue depths within a bin count as equal"},
			lossDoc, convergenceDoc,
		},
		Receiver: transport.Ideal, Flows: Spread, switches: jsq,
	}
}

func flowletSpec() Spec {
	return Spec{
		Name: Flowlet, Summary: "switches keep a flow on the best uplink until the flow pauses",
		Params: []transport.Param{
			{Name: "mode", Meaning: "flowlet, assigned, per-packet: a flow may move after a pause, never, or with every packet"},
			{Name: "gap", Meaning: "pause after which a flow may move, in whole microseconds; 16us when absent"}, lossDoc, convergenceDoc,
		},
		Receiver: transport.SelectiveRepeat, Flows: NoFlowModel, switches: flowlet,
	}
}

func ofanSpec() Spec {
	return Spec{
		Name: Ofan, Summary: "switches send the packets of each destination by all uplinks in turn",
		Params: []transport.Param{lossDoc, convergenceDoc}, Receiver: transport.Ideal, Flows: Spread, switches: ofan,
	}
}

func switchSpray(a *params.Reader, _ SwitchConfig) controller.Balancing {
	return controller.Balancing{
		Rule: controller.RobinSpray, Reshuffle: a.Integer("reshuffle", defaultReshuffle, 0, 255),
		DataOnly: a.Choice("acks", "spray", "hash") == "hash",
	}
}

func switchSprayRandom(*params.Reader, SwitchConfig) controller.Balancing {
	return controller.Balancing{Rule: controller.RandomSpray}
}

func ofan(*params.Reader, SwitchConfig) controller.Balancing {
	return controller.Balancing{Rule: controller.DestinationRotor}
}

func jsq(a *params.Reader, c SwitchConfig) controller.Balancing {
	b := controller.Balancing{Rule: controller.ShortestUplink}
	text, ok := a.Text("bins")
	if !ok || text == "none" {
		return b
	}
	fields := strings.Split(text, ",")
	if len(fields) != len(b.Bins) {
		a.Bad("bins", "none, or three rising percentages such as 5,10,20")
		return b
	}
	last := 0.0
	for i, f := range fields {
		percent, err := strconv.ParseFloat(strings.TrimSpace(f), 64)
		if err != nil || !(percent > last && percent <= 100) {
			a.Bad("bins", "none, or three rising percentages such as 5,10,20")
			return b
		}
		last = percent
		b.Bins[i] = max(c.Unit, fabric.Bytes(percent/100*float64(c.Buffer)/float64(max(1, c.Ports))))
	}
	return b
}

func flowlet(a *params.Reader, _ SwitchConfig) controller.Balancing {
	b := controller.Balancing{Rule: controller.FlowletUplink}
	gap := a.Time("gap", defaultGap, defaultGap)
	if gap%fabric.Microsecond != 0 {
		a.Bad("gap", "whole microseconds")
	}
	b.GapUs = uint32(gap / fabric.Microsecond)
	switch a.Choice("mode", "flowlet", "assigned", "per-packet") {
	case "assigned":
		b.Rule = controller.AssignedUplink
	case "per-packet":
		b.Rule = controller.BestUplinkByPacket
	}
	return b
}
