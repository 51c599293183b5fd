package host

import (
	"cmp"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/hostagent/usid"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint/balance"
)

// Settings say how a host's endpoint and agent behave, in every world. A field that is
// zero has the default of the part that it goes to.
type Settings struct {
	Seed   uint64            `json:"seed"`
	Scheme string            `json:"scheme"`
	Params map[string]string `json:"params,omitempty"`

	Payload   int         `json:"payload"` // bytes of a full packet
	Rate      fabric.Rate `json:"rate"`    // of the link; 0: the fabric's
	IPv6      bool        `json:"ipv6"`
	FlowLabel bool        `json:"flow_label"` // labels in the IPv6 flow label
	USID      bool        `json:"usid"`       // as micro segments in an outer header

	RTO           fabric.Time       `json:"rto"`
	AckEvery      int               `json:"ack_every"`
	AckWhenAsked  bool              `json:"ack_when_asked"`
	Control       endpoint.Control  `json:"control"`
	ControlParams map[string]string `json:"control_params,omitempty"`
	Receiver      endpoint.Receiver `json:"receiver"`
	ReorderWindow int               `json:"reorder_window"`
	Reordered     bool              `json:"reordered"`           // switches reorder packets
	LateLoss      bool              `json:"late_loss,omitempty"` // losses of reordered packets are found by time
	NoNudge       bool              `json:"no_nudge"`
	NoResend      bool              `json:"no_resend"` // a flipped queue pair waits until it is asked for what is missing
	NoTailProbe   bool              `json:"no_tail_probe"`
	// LeastTrip is what a round trip takes at least, where wires are not what it takes
	// longest on: no answer to a last packet is late before.
	LeastTrip fabric.Time `json:"least_trip"`

	BatchWindow  fabric.Time `json:"window"`
	StartJitter  fabric.Time `json:"jitter"`
	NoJitter     bool        `json:"no_jitter"`
	FailedMemory fabric.Time `json:"memory"` // how long a path stays dead without news
	TimeoutGrace fabric.Time `json:"grace"`
	QuenchBurst  int         `json:"quench_burst"`
	// QuenchInterval is for one more quench believed.
	QuenchInterval fabric.Time `json:"quench_interval"`
	// Losses is the test by which paths are left for what they lose. It is to be off
	// where switches drop packets and mark none: such a loss looks like any other.
	Losses hostagent.LossTest `json:"losses"`
	// Slow is the test by which paths count as slow.
	Slow       hostagent.SlowTest `json:"slow"`
	Calm       fabric.Time        `json:"calm"`
	ProbeEvery fabric.Time        `json:"probe_every"`
}

// Core returns what [New] takes for a host.
func (s *Settings) Core(f *fabric.Fabric, id fabric.NodeID) Config {
	jitter := s.StartJitter
	if s.NoJitter {
		jitter = -1
	}
	return Config{
		Config: balance.Config{
			Config: hostagent.Config{
				Fabric: f, Host: id, Seed: s.Seed, FailedPathMemory: s.FailedMemory, StartJitter: jitter,
				TimeoutGrace: s.TimeoutGrace, QuenchBurst: s.QuenchBurst, QuenchInterval: s.QuenchInterval,
				Losses: s.Losses, Slow: s.Slow, Calm: s.Calm, ProbeEvery: s.ProbeEvery,
			},
			MTU: s.Payload,
		},
		Scheme: s.Scheme, Params: s.Params, BatchWindow: s.BatchWindow, ResendOnFlip: !s.NoResend,
	}
}

// Endpoint returns what [endpoint.New] takes for the interface under a core: the core
// labels its packets and learns what they meet, as far as its scheme does.
func (s *Settings) Endpoint(c *Core) endpoint.Config {
	f := c.cfg.Fabric
	e := endpoint.Config{
		Fabric: f, Host: c.cfg.Host, IPv6: s.IPv6, FlowLabel: s.FlowLabel, MTU: s.Payload, LineRate: s.Rate,
		RTO: s.RTO, AckEvery: s.AckEvery, AckWhenAsked: s.AckWhenAsked, NoNudge: s.NoNudge,
		Receiver: s.Receiver, ReorderWindow: s.ReorderWindow, Reordered: s.Reordered, LateLoss: s.LateLoss,
		Control: s.Control, ControlParams: s.ControlParams,
		AckLabel: c.scheme.AckLabel,
	}
	if s.USID {
		e.Outer = usid.HeaderSize
	}
	if !s.NoTailProbe {
		e.Trip = max(s.LeastTrip, endpoint.IdleTrip(f, cmp.Or(s.Payload, endpoint.DefaultMTU)+e.Outer))
	}
	if c.packets != nil {
		e.Balancer = c
	}
	if c.lostBy != nil {
		e.Losses = c
	}
	if c.losses != nil && !s.Losses.Off {
		e.Watcher = c
	}
	return e
}
