package preflight

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/openconfig/gnmi/proto/gnmi"

	"github.com/ethereal-fabric/ethereal/controller/linkstate"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/checklist"
)

// gnmi checks a switch's ports and clock.
func (c *checker) gnmi(ctx context.Context, id fabric.NodeID, add addLine) {
	t := c.Daemon.Targets[id]
	if t.GNMI == "" {
		add(checklist.Yellow, "gnmi", "the switch has none: its ports are known from their other ends only", "run ethereal gnmi beside it, and name it in the targets file")
		return
	}
	conn, err := c.Daemon.Dial(t.GNMI)
	if err != nil {
		add(checklist.Red, "gnmi", err.Error(), "correct gnmi in the targets file")
		return
	}
	defer conn.Close() //nolint:errcheck // nothing is under way
	ctx, cancel := context.WithTimeout(ctx, c.limit())
	defer cancel()
	caps, err := gnmi.NewGNMIClient(conn).Capabilities(ctx, &gnmi.CapabilityRequest{})
	if err != nil {
		remedy := reachRemedy(err, t.GNMI, "the switch's gNMI server", "gnmi in the targets file")
		if strings.Contains(err.Error(), "nimplemented") {
			remedy = "run ethereal gnmi beside the switch and name it as gnmi in the targets file, or write gnmi: none"
		}
		add(checklist.Red, "gnmi", withoutCode(err), remedy)
		return
	}
	model := slices.ContainsFunc(caps.GetSupportedModels(), func(m *gnmi.ModelData) bool { return m.GetName() == "openconfig-interfaces" })
	if !model {
		add(checklist.Yellow, "gnmi", t.GNMI+" answers, version "+caps.GetGNMIVersion()+", but does not list openconfig-interfaces", "see that it serves interfaces/interface/state/oper-status")
	} else {
		add(checklist.Green, "gnmi", t.GNMI+" answers, version "+caps.GetGNMIVersion(), "")
	}
	began := c.Now()
	states, stamp, err := linkstate.ReadPortStatesAt(ctx, conn, linkstate.Subscription{Target: t.GNMITarget, Names: t.Ports})
	if err != nil {
		add(checklist.Red, "ports", err.Error(), "the switch must serve interfaces/interface/state/oper-status over gNMI Subscribe")
		return
	}
	c.portStates(id, states, add)
	if off := stamp.Sub(began); !stamp.IsZero() {
		if off.Abs() > maxClockOffset {
			add(checklist.Yellow, "clock", fmt.Sprintf("differs from here by %v", off.Round(time.Millisecond)), "synchronise both by NTP or PTP: logs and certificates need it")
		} else {
			add(checklist.Green, "clock", "differs from here by less than "+maxClockOffset.String(), "")
		}
	}
	add(checklist.Unseen, "speed, mtu, pfc", "not in the part of openconfig-interfaces that is asked for",
		"compare the chassis config with fabric.yaml: rate, lanes and FEC of every port; try an MTU with --frame BYTES")
}

// maxClockOffset is the largest difference of clocks; it includes the time of the answer.
const maxClockOffset = 2 * time.Second

func (c *checker) portStates(id fabric.NodeID, states map[fabric.PortNo]bool, add addLine) {
	t := c.Daemon.Targets[id]
	var missing, down []string
	for i := range c.f.Node(id).Ports() {
		p := fabric.PortNo(i + 1)
		up, known := states[p]
		switch {
		case !known:
			missing = append(missing, t.Ports.Name(p))
		case !up:
			down = append(down, t.Ports.Name(p))
		}
	}
	if len(missing) > 0 {
		add(checklist.Red, "ports", "the switch has no "+strings.Join(missing, ", "),
			"correct the names under ports in the targets file, or the switch's chassis config or -i options")
	}
	if len(down) > 0 {
		add(checklist.Red, "ports", strings.Join(down, ", ")+" down", "enable the port and plug the cable in; compare speed, lanes and FEC of both ends")
	}
	if len(missing)+len(down) == 0 {
		add(checklist.Green, "ports", fmt.Sprintf("all %d are up", c.f.Node(id).Ports()), "")
	}
}
