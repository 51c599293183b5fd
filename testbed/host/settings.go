package host

import (
	"cmp"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/hostagent/usid"
	"github.com/ethereal-fabric/ethereal/roce/transport"
	"github.com/ethereal-fabric/ethereal/testbed/balance"
)

// Settings is the settings of a host's endpoint and agent, the same type in every world. A zero field means the
// default.
type Settings struct {
	Seed   uint64            `json:"seed"`
	Scheme string            `json:"scheme"`
	Params map[string]string `json:"params,omitempty"`

	Payload   int         `json:"payload"` // bytes of payload in a full packet
	Rate      fabric.Rate `json:"rate"`    // rate of the host's link; 0: the fabric's
	IPv6      bool        `json:"ipv6"`
	FlowLabel bool        `json:"flow_label"` // the IPv6 flow label also carries path labels
	USID      bool        `json:"usid"`       // labels are carried as micro segments in an outer header

	RTO           fabric.Time        `json:"rto"`
	MostRTO       fabric.Time        `json:"most_rto"`
	AckEvery      int                `json:"ack_every"`
	AckWhenAsked  bool               `json:"ack_when_asked"`
	Control       transport.Control  `json:"control"`
	ControlParams map[string]string  `json:"control_params,omitempty"`
	Receiver      transport.Receiver `json:"receiver"`
	ReorderWindow int                `json:"reorder_window"`
	Reordered     bool               `json:"reordered"`           // switches reorder packets
	LateLoss      bool               `json:"late_loss,omitempty"` // losses of reordered packets are detected by time
	ResendOnFlip  bool               `json:"resend_on_flip"`      // else a flipped queue pair waits for a NAK
	TailProbe     bool               `json:"tail_probe"`          // send zero-length WRITEs when an ACK is overdue
	// LeastTrip is the shortest round-trip time to assume where software, not the wire, is slowest: before it no ACK
	// counts as overdue.
	LeastTrip fabric.Time `json:"least_trip"`

	BatchWindow  fabric.Time `json:"window"`
	StartJitter  fabric.Time `json:"jitter"`
	NoJitter     bool        `json:"no_jitter"`
	FailedMemory fabric.Time `json:"memory"` // how long a path counts as dead without new reports
	TimeoutGrace fabric.Time `json:"grace"`
	QuenchBurst  int         `json:"quench_burst"`
	// QuenchInterval is the time after which one more source quench is accepted.
	QuenchInterval fabric.Time `json:"quench_interval"`
	// Losses is the test by which a path is left because of losses. Disable it if switches drop packets without
	// marking, since congestion then looks like a lossy path.
	Losses hostagent.LossTest `json:"losses"`
	// Slow is the test that decides which paths count as slow.
	Slow       hostagent.SlowTest `json:"slow"`
	Calm       fabric.Time        `json:"calm"`
	ProbeEvery fabric.Time        `json:"probe_every"`
	// AskWait is the shortest time after which a path probe counts as unanswered.
	AskWait fabric.Time `json:"ask_wait"`

	// The rest is for hosts that are processes. In the simulator hosts agree on sessions without packets, and a world
	// passes on only the notifications that its run has.

	// Nonce decides the first sessions of all hosts (package soft). It is the same at all hosts, and different each
	// time, so that late packets of earlier runs are recognised. 0: hosts agree on sessions when they first send.
	Nonce     uint64 `json:"nonce"`
	NoQuench  bool   `json:"no_quench"`  // source quenches are counted and ignored
	NoUpdates bool   `json:"no_updates"` // controllers' updates are received and ignored
	NoReports bool   `json:"no_reports"` // time-outs are not reported to controllers, and their suspicions are ignored
}

// packet returns the bytes of a full packet, without most headers.
func (s *Settings) packet() int64 {
	n := cmp.Or(s.Payload, transport.DefaultMTU)
	if s.USID {
		n += usid.HeaderSize
	}
	return int64(n)
}

// Core returns the configuration of a host's core, for [New].
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
				Asks: s.TailProbe, AskWait: s.AskWait, Rate: s.Rate, Packet: s.packet(),
			},
			MTU: s.Payload,
		},
		Scheme: s.Scheme, Params: s.Params, BatchWindow: s.BatchWindow, ResendOnFlip: s.ResendOnFlip,
	}
}

// Endpoint returns the configuration of the interface under a core, for [transport.New]: the core labels its packets
// and learns their fate, as far as its scheme needs.
func (s *Settings) Endpoint(c *Core) transport.Config {
	f := c.logic.cfg.Fabric
	e := transport.Config{
		Fabric: f, Host: c.logic.cfg.Host, IPv6: s.IPv6, FlowLabel: s.FlowLabel, MTU: s.Payload, LineRate: s.Rate,
		RTO: s.RTO, MostRTO: s.MostRTO, AckEvery: s.AckEvery, AckWhenAsked: s.AckWhenAsked, ProbeOnFlip: s.TailProbe,
		Receiver: s.Receiver, ReorderWindow: s.ReorderWindow, Reordered: s.Reordered, LateLoss: s.LateLoss,
		Control: s.Control, ControlParams: s.ControlParams,
		AckLabel: c.Scheme().AckLabel,
	}
	if s.USID {
		e.Outer = usid.HeaderSize
	}
	if s.TailProbe {
		e.Trip = max(s.LeastTrip, transport.IdleTrip(f, int(s.packet())))
	}
	c.logic.scheme.attach(&e, c)
	return e
}
