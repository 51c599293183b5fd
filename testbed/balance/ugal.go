package balance

import (
	"github.com/ethereal-fabric/ethereal/roce/params"
	"github.com/ethereal-fabric/ethereal/roce/transport"
)

// UGAL is the name of universal globally-adaptive load balancing by local queues (UGAL-L: Kim, Dally, Scott and Abts,
// ISCA 2008), which compares the queues of the source switch. Hosts do as those of ecmp.
const UGAL = "ugal"

func ugalSpec() Spec {
	return Spec{
		Name: UGAL, Summary: "the sender's switch compares its queues towards the minimal path of a dragonfly and towards a random other one (virtual world only)",
		Params: []transport.Param{
			{Name: "mode", Meaning: "packet, flow: it chooses for every packet, or for the first one of a queue pair"}, lossDoc, convergenceDoc,
		},
		Receiver: transport.Ideal, Flows: NoFlowModel,
		source: func(a *params.Reader) SwitchLabelling {
			return SwitchLabelling{Adaptive: true, ByFlow: a.Choice("mode", "packet", "flow") == "flow"}
		},
	}
}
