package balance

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/roce/params"
	"github.com/ethereal-fabric/ethereal/roce/transport"
)

// ethereal adapts the agent core to the interface.
type ethereal struct{ *hostagent.Core }

// Ethereal is the name of the default scheme, this project's host agent: see package hostagent.
const Ethereal = "ethereal"

func etherealSpec() Spec {
	return Spec{
		Name: Ethereal, Summary: "hosts split flows into as few labelled pieces as possible, and move a piece when its path fails",
		Params: []transport.Param{
			{Name: "suspicion", Meaning: "off, on: agents share reports of lossy paths through the controller"},
			{Name: "uplinks", Meaning: "uplinks of each ToR that a host uses; all when absent"},
			{Name: "pieces", Meaning: "equal, fewest: pieces of a flow have equal sizes, or are as few as possible"},
			{Name: "slack", Meaning: "bytes that a path may carry above its share of a batch, for unequal flows or fewest pieces; 0 when absent"},
			{Name: "minimal", Meaning: "bytes on the minimal path of a dragonfly for each byte on another path; 8 when absent"},
			{Name: "slow", Meaning: "unload, keep: hosts move pieces off a path that works but is slower than others, or do not"},
		},
		Receiver: transport.GoBackN, Flows: Labelled, Suspicion: true,
		host: func(a *params.Reader) hostFactory {
			a.Choice("suspicion", "off", "on")
			uplinks := a.Integer("uplinks", 0, 1, 1<<fabric.LabelBits)
			fewest := a.Choice("pieces", "equal", "fewest") == "fewest"
			slack := a.Integer("slack", 0, 0, 1<<30)
			minimal := a.Integer("minimal", 0, 1, hostagent.MaxMinimal)
			stay := a.Choice("slow", "unload", "keep") == "keep"
			return func(c Config) (Host, error) {
				c.Uplinks, c.Fewest, c.Slack, c.Minimal, c.Slow.Off = uplinks, fewest, int64(slack), minimal, stay
				core, err := hostagent.New(c.Config)
				if err != nil {
					return nil, err
				}
				return ethereal{core}, nil
			}
		},
	}
}

func (e ethereal) AckLabel(now fabric.Time, peer fabric.NodeID, mirrored fabric.Label, rerouted bool) fabric.Label {
	return e.ResponderLabel(now, peer, mirrored, rerouted)
}
