package scenario

import (
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/testbed/host"
	"github.com/ethereal-fabric/ethereal/testbed/sim"
)

// Hosts returns the settings of the run's hosts. An error means that the scheme does not exist.
func (r Run) Hosts() (host.Settings, error) {
	spec, err := r.Scheme.Spec()
	if err != nil {
		return host.Settings{}, err
	}
	h, a := r.Scenario.Host, r.Scenario.Agent
	// Without marks a loss by congestion looks like any other.
	sw := r.Scenario.Switch
	drops := sw.Trim == 0 && r.Scenario.FlowControl() == (sim.PFC{})
	silent := drops && (sw.ECN.KMax == 0 || sw.ECN.KMin >= sw.QueueLimit(1))
	late := drops && sw.ECN.KMax >= sw.QueueLimit(r.Fabric.MostPorts())
	return host.Settings{
		Seed: r.Seed, Scheme: r.Scheme.Name, Params: r.Scheme.Params,
		Payload: int(h.Payload), IPv6: h.IPv6, FlowLabel: h.Carrier == IPv6FlowLabel, USID: h.Carrier == SRv6USID,
		RTO: h.RTO, AckEvery: h.AckEvery, AckWhenAsked: h.AckWhenAsked, Control: h.ControlFor(r.Scheme.Name),
		ControlParams: h.CongestionParams,
		Receiver:      h.Receiver.For(r.Scheme.Name), ReorderWindow: h.ReorderWindow, Reordered: spec.Reorders(r.Scheme.Params),
		LateLoss:     spec.FindsLate(r.Scheme.Params, h.Receiver.For(r.Scheme.Name)),
		ResendOnFlip: h.ResendOnFlip, TailProbe: h.TailProbe,
		BatchWindow: a.BatchWindow, StartJitter: a.StartJitter, NoJitter: a.StartJitter == 0, FailedMemory: a.FailedPathMemory,
		Losses: hostagent.LossTest{Off: silent, Unmarked: late, Pauses: r.Scenario.FlowControl().Enabled()},
	}, nil
}
