package scenario

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/transport"
	"github.com/ethereal-fabric/ethereal/testbed/sim"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// Limits of a scenario. The packages that carry a run out have their own limits, which are wider; checkParts and
// the tests check that.
const (
	minBuffer fabric.Bytes = 64e3
	maxBuffer fabric.Bytes = math.MaxInt32 // package sim counts in 32 bits

	minAlpha = 1.0 / 256 // package sim's step
	maxAlpha = 1024

	maxCells = 1<<19 - 1 // BMv2's queue depths are 19 bits wide

	minPayload fabric.Bytes = 256  // the smallest path MTU of InfiniBand
	maxPayload fabric.Bytes = 9600 // fits jumbo frames with all headers

	minHeaders fabric.Bytes = 40 // package sim removes up to 64 B from a packet
	maxHeaders fabric.Bytes = 1024

	maxPackets = 1 << 22 // per message: half of the distinguishable PSNs, halved again

	minHostRate = fabric.Mbps     // the live world may carry little
	maxHostRate = 8 * fabric.Tbps // 1 ps per byte
)

// checkLinks checks what package fabric does not limit: the rate of the hosts' links.
func (s *Scenario) checkLinks(f *fabric.Fabric, bad reportError) {
	spec := f.Spec()
	if r := spec.HostLink.Rate; r < minHostRate || r > maxHostRate {
		bad("fabric.host_link.rate", fmt.Sprintf("%v is outside %v to %v", r, minHostRate, maxHostRate), "write for example 400Gb/s")
	}
}

// checkParts lets the packages that will carry the runs out check the scenario, so that errors appear before
// anything runs.
func (s *Scenario) checkParts(f *fabric.Fabric, bad reportError) {
	refuse := func(err, prefix error, where map[string]string, otherwise string) {
		if err == nil {
			return
		}
		text := strings.TrimPrefix(err.Error(), prefix.Error()+": ")
		path := otherwise
		for lead, p := range where {
			if rest, ok := strings.CutPrefix(text, lead); ok {
				path, text = p, strings.TrimPrefix(strings.TrimPrefix(rest, ":"), " ")
				break
			}
		}
		problem, remedy, _ := strings.Cut(text, "; ")
		bad(path, problem, remedy)
	}
	err := sim.Config{
		Fabric: f, Buffer: s.Switch.Buffer, Alpha: s.Switch.Alpha, Cell: int(s.Switch.Cell), PFC: s.FlowControl(), Trim: s.Switch.Trim,
	}.Validate()
	refuse(err, sim.ErrConfig, map[string]string{
		"Buffer": "switch.buffer", "Alpha": "switch.alpha", "Cell": "switch.cell", "Fabric": "fabric", "PFC": "switch.pfc", "Trim": "switch.trim",
	}, "switch")

	if e := s.Switch.ECN; f.Planes() == 1 { // with several planes no controller sets it
		err = controller.Config{
			Fabric: f, ECN: controller.ECN{Kmin: e.KMin, Kmax: e.KMax, Pmax: e.PMax, Unit: s.Switch.Cell},
		}.Validate()
	}
	refuse(err, controller.ErrConfig, map[string]string{
		"ECN.Kmax": "switch.ecn.kmax", "ECN.Pmax": "switch.ecn.pmax", "ECN.Unit": "switch.cell", "Fabric": "fabric",
	}, "switch.ecn")

	nic := transport.Config{
		Fabric: f, IPv6: s.Host.IPv6, FlowLabel: s.Host.Carrier == IPv6FlowLabel, MTU: int(s.Host.Payload), RTO: s.Host.RTO,
		AckEvery: s.Host.AckEvery, ReorderWindow: s.Host.ReorderWindow,
	}
	err = nil
	if s.Host.TailProbe {
		nic.Trip = transport.IdleTrip(f, nic.MTU)
	}
	for _, scheme := range s.schemesInForm() { // they may choose the receiver, and the detection of losses
		nic.Receiver, nic.Control = s.Host.Receiver.For(scheme.Name), s.Host.ControlFor(scheme.Name)
		spec, _ := scheme.Spec() // an unknown scheme's is empty
		nic.LateLoss = spec.FindsLate(scheme.Params, nic.Receiver)
		err = cmp.Or(err, nic.Validate())
	}
	refuse(err, transport.ErrConfig, map[string]string{
		"MTU": "host.payload", "least rate": "fabric.host_link.rate", "line rate": "fabric.host_link.rate",
		"reorder window": "host.reorder_window", "labels": "host.carrier", string(nic.Control): "host.receiver",
	}, "host")
}

// largestMessage returns the size in bytes of the largest message among that many ranks.
func (c Collective) largestMessage(ranks int) int64 {
	switch bytes := int64(c.Bytes); {
	case c.Kind == collective.Permutation, c.Kind == collective.Incast, c.Algorithm == collective.WholeVectorDoubling:
		return bytes
	case c.Algorithm == collective.HalvingDoubling:
		return bytes / 2
	case c.Algorithm == collective.DoubleBinaryTree:
		return bytes - bytes/2
	case c.Skew != 0:
		return int64(float64(bytes) * collective.MaxFactor(c.Spread)) // the most popular rank gets less
	default:
		return int64(float64(bytes/int64(ranks)) * collective.MaxFactor(c.Spread))
	}
}

// checkMessage checks that one queue pair can carry the largest message: a balancer may leave a message whole.
func (c Collective) checkMessage(path string, ranks int, payload fabric.Bytes, bad reportError) {
	if c.Group != 0 {
		ranks = c.Group
	}
	message := c.largestMessage(ranks)
	switch {
	case message > transport.MaxMessage:
		bad(path+".bytes", fmt.Sprintf("%v makes messages of %dB; a queue pair carries %dB (2GiB) at most", c.Bytes, message, int64(transport.MaxMessage)),
			"write less")
	case payload > 0 && (message+int64(payload)-1)/int64(payload) > maxPackets:
		bad(path+".bytes", fmt.Sprintf("%v makes messages of more than %d packets of %v", c.Bytes, maxPackets, payload),
			"write less, or raise host.payload")
	}
}
