package scheme

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
)

// ethereal is the agent core under the interface's names.
type ethereal struct{ *hostagent.Core }

func newEthereal(c Config) (Host, error) {
	core, err := hostagent.New(c.Config)
	if err != nil {
		return nil, err
	}
	return ethereal{core}, nil
}

func (e ethereal) AckLabel(now fabric.Time, peer fabric.NodeID, mirrored fabric.Label, rerouted bool) fabric.Label {
	return e.ResponderLabel(now, peer, mirrored, rerouted)
}
