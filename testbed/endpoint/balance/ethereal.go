package balance

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
)

// ethereal is the agent core under the interface's names.
type ethereal struct{ *hostagent.Core }

// SharesSuspicion reports whether a scheme's agents report the paths they time out
// on, for a controller to find the link and to tell all of them.
func SharesSuspicion(name string, params map[string]string) bool {
	return name == Ethereal && params["suspicion"] == "on"
}

func settleEthereal(a *args) maker {
	a.choice("suspicion", "off", "on")
	return newEthereal
}

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
