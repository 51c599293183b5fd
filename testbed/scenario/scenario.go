package scenario

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/damping"
	"github.com/ethereal-fabric/ethereal/controller/rollout"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/strictyaml"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint/balance"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// Scenario is an experiment. A field tagged required must be given; the others
// default to what [Default] or the [Preset] holds. Package strictyaml reads it.
type Scenario struct {
	Name        string       `yaml:"name" required:"the scenario's name goes into every result"`
	Description string       `yaml:"description"`
	Preset      string       `yaml:"preset"`    // what the keys left out have; "": the defaults
	Opponents   string       `yaml:"opponents"` // in which form schemes run; see [OpponentForms]
	Fabric      fabric.Spec  `yaml:"fabric" required:"for example fabric: {kind: fat-tree, k: 4}"`
	Servers     Servers      `yaml:"servers"`
	Switch      Switch       `yaml:"switch"`
	Host        Host         `yaml:"host"`
	Agent       Agent        `yaml:"agent"`
	Control     Control      `yaml:"control"`
	Collectives []Collective `yaml:"collectives" required:"for example a list with - {kind: all-to-all, bytes: 16MB}"`
	Schemes     []Scheme     `yaml:"schemes" required:"for example schemes: [ethereal, ecmp]"`
	Failures    []Failure    `yaml:"failures"`
	// Steps are the events of the one failure case of a scenario that has no list of
	// them, and Notifiers that case's. What reads a scenario makes Failures of them.
	Steps     []Event       `yaml:"steps"`
	Notifiers []Notifier    `yaml:"notifiers" was:"notifier"`
	Expect    []Expectation `yaml:"expect"`
	Worlds    Worlds        `yaml:"worlds"`
	Seeds     Seeds         `yaml:"seeds"`

	// Deadline is the simulated time at which a run that has not finished is
	// given up and reported as not finished.
	Deadline fabric.Time `yaml:"deadline"`

	// Slowed is the rate of all links where a world cannot carry the fabric's; 0: they
	// are the fabric's. See [Scenario.In].
	Slowed fabric.Rate `yaml:"-"`
	// Moved says that [Scenario.Override] has given it another fabric, for people.
	Moved string `yaml:"-"`
	// Stretched says what [Scenario.In] has changed, for people.
	Stretched string `yaml:"-"`
}

// Switch is what all switches have in common.
type Switch struct {
	Buffer fabric.Bytes `yaml:"buffer"` // shared by all ports of a switch
	// Alpha is the dynamic threshold: a queue may grow to Alpha times what is
	// free of the buffer.
	Alpha float64 `yaml:"alpha"`
	ECN   ECN     `yaml:"ecn"`
	PFC   PFC     `yaml:"pfc"`
	// Trim cuts a data packet to its header when its port's queue would be longer than
	// this with it; 0: none is cut. In virtual time.
	Trim fabric.Bytes `yaml:"trim"`
	// Cell is the unit in which queue depth reaches the P4 program.
	Cell fabric.Bytes `yaml:"cell"`
	// QuenchInterval is the least time between two quenches to one source for
	// one port, in whole microseconds.
	QuenchInterval fabric.Time `yaml:"quench_interval"`
}

// ECN marks packets at random between two queue depths: none below KMin, a
// share rising to PMax at KMax, all above. Equal thresholds are a step; both 0
// turn marking off.
type ECN struct {
	KMin fabric.Bytes `yaml:"kmin"`
	KMax fabric.Bytes `yaml:"kmax"`
	PMax float64      `yaml:"pmax"` // 0 to 1
}

// Host is the RoCEv2 endpoint of every host.
type Host struct {
	Payload fabric.Bytes `yaml:"payload"` // of a full packet, headers not counted
	// Headers is what a full packet has beside payload on the wire, framing
	// included; 0: what it really has. Other packets differ by as much.
	Headers           fabric.Bytes     `yaml:"headers"`
	AckEvery          int              `yaml:"ack_every"` // packets
	RTO               fabric.Time      `yaml:"rto"`       // retransmission timer of a queue pair
	CongestionControl endpoint.Control `yaml:"congestion_control"`
	// CongestionParams are the rate control's parameters.
	CongestionParams map[string]string `yaml:"congestion_params"`
	// TargetDelay is a rate control's parameter target_delay, for those that have it.
	TargetDelay fabric.Time `yaml:"target_delay"`
	Receiver    Receiver    `yaml:"receiver"`
	// ReorderWindow is what a receiver of selective repeat can keep, from the
	// first packet it misses.
	ReorderWindow int     `yaml:"reorder_window"` // packets
	Carrier       Carrier `yaml:"carrier"`
	IPv6          bool    `yaml:"ipv6"`
	// NudgeOnFlip posts a zero-length write on a flipped queue pair that has
	// nothing left to send, so that the receiver sees what is missing.
	NudgeOnFlip bool `yaml:"nudge_on_flip"`
	// TailProbe posts a zero-length write behind the last packets of a message whose
	// answer is late, so that the receiver sees what is missing.
	TailProbe bool `yaml:"tail_probe"`
	// ResendOnFlip has a queue pair that flips off a dead path send again at once
	// what it has on the way. An RNIC has no such order: it waits for a NAK or
	// its timer.
	ResendOnFlip bool `yaml:"resend_on_flip"`
	// AckWhenAsked has receivers that keep packets acknowledge those that ask for
	// it, and what completes a message, but not every packet out of its turn.
	AckWhenAsked bool `yaml:"ack_when_asked"`
	// Completion is when a message counts as received.
	Completion Completion `yaml:"completion"`
}

// Completion says when the receiver of a message may go on with what waits for it.
type Completion string

// Completions.
const (
	OnArrival Completion = "arrival" // of the message's last byte
	// OnAck is when its sender has the last acknowledgement, at which moment the receiver
	// goes on, though nothing notifies it: what ASTRA-sim's ns-3 and htsim's triggers do.
	OnAck Completion = "ack"
)

// ControlParams returns all parameters of the hosts' rate control.
func (h *Host) ControlParams() map[string]string {
	const key = "target_delay"
	spec, err := h.CongestionControl.Spec()
	if h.TargetDelay == 0 || err != nil || !spec.HasParam(key) {
		return h.CongestionParams
	}
	all := map[string]string{key: h.TargetDelay.String()}
	maps.Copy(all, h.CongestionParams)
	return all
}

// Receiver names what hosts do with packets that come before their turn.
type Receiver string

// Receivers.
const (
	SchemeReceiver  Receiver = "scheme" // what the scheme's authors assume
	GoBackN                  = Receiver(endpoint.GoBackN)
	SelectiveRepeat          = Receiver(endpoint.SelectiveRepeat)
	IdealReceiver            = Receiver(endpoint.Ideal)
)

// Receivers returns the names of all receivers.
func Receivers() []string {
	return append([]string{string(SchemeReceiver)}, endpoint.Names(endpoint.Transport)...)
}

// For returns the receiver for a scheme: go-back-N for an unknown one.
func (r Receiver) For(schemeName string) endpoint.Receiver {
	if r != SchemeReceiver && r != "" {
		return endpoint.Receiver(r)
	}
	spec, _ := balance.Find(schemeName)
	return cmp.Or(spec.Receiver, endpoint.GoBackN)
}

// Carrier names the packet field that carries a path label.
type Carrier string

// Carriers.
const (
	UDPSourcePort Carrier = "udp-sport"
	IPv6FlowLabel Carrier = "ipv6-flowlabel"
	SRv6USID      Carrier = "srv6-usid"
)

// Carriers returns the names of all carriers.
func Carriers() []string {
	return []string{string(UDPSourcePort), string(IPv6FlowLabel), string(SRv6USID)}
}

// Tables returns where switches look for labels in IPv4 and in IPv6 packets.
func (c Carrier) Tables() (v4, v6 controller.Carrier) {
	switch c {
	case SRv6USID:
		return controller.NoCarrier, controller.MicroSegments
	case IPv6FlowLabel:
		return controller.UDPSourcePort, controller.FlowLabel
	}
	return controller.UDPSourcePort, controller.UDPSourcePort
}

// Agent is the host agent of every host.
type Agent struct {
	FailedPathMemory fabric.Time `yaml:"failed_path_memory"` // how long a path stays dead without news
	BatchWindow      fabric.Time `yaml:"batch_window"`       // sends this close together are one batch
	StartJitter      fabric.Time `yaml:"start_jitter"`       // queue pairs start 0 to this late
}

// Control is how long the control plane's messages and work take, and what of the
// controller's set-up a run can change.
type Control struct {
	GNMIDelay    fabric.Time `yaml:"gnmi_delay"`    // switch to controller: a notification
	ComputeDelay fabric.Time `yaml:"compute_delay"` // in the controller
	WriteDelay   fabric.Time `yaml:"write_delay"`   // controller to switch, a P4Runtime write, and back: each
	PushDelay    fabric.Time `yaml:"push_delay"`    // controller to host agent: a link update

	Damping        Damping     `yaml:"damping"`
	StartWait      fabric.Time `yaml:"start_wait"`       // for the states of all ports, by a controller that starts
	StageTimeout   fabric.Time `yaml:"stage_timeout"`    // for the answers to a stage of writes; 0: none
	TablesWait     fabric.Time `yaml:"tables_wait"`      // of a link that is back, for the switches' tables; 0: none
	RestoredAtOnce bool        `yaml:"restored_at_once"` // agents are notified of a link that is back before its tables are written
}

// Damping says which ports flap too much to be believed; see package damping.
type Damping struct {
	HalfLife fabric.Time `yaml:"half_life"` // 0: all are believed
	Suppress float64     `yaml:"suppress"`
	Reuse    float64     `yaml:"reuse"`
	Longest  fabric.Time `yaml:"longest"`
}

// Rollout is the set-up of the controller's core, without its tables.
func (c Control) Rollout() rollout.Config {
	return rollout.Config{
		Damping: damping.Config{
			Off: c.Damping.HalfLife == 0, HalfLife: c.Damping.HalfLife, Suppress: c.Damping.Suppress, Reuse: c.Damping.Reuse,
			Longest: c.Damping.Longest,
		},
		StartWait: c.StartWait, StageTimeout: c.StageTimeout, TablesWait: c.TablesWait, RestoredAtOnce: c.RestoredAtOnce,
	}
}

// Collective is one collective operation over all hosts.
type Collective struct {
	Kind      string       `yaml:"kind" required:"for example all-to-all"`
	Algorithm string       `yaml:"algorithm"` // of the kind; direct when empty
	Bytes     fabric.Bytes `yaml:"bytes"`     // required, but for a workload
	Shift     int          `yaml:"shift"`     // permutation: rank i sends to i+shift; 0 draws one by the run's seed
	Target    int          `yaml:"target"`    // incast: the rank that receives
	Senders   int          `yaml:"senders"`   // incast: how many send; 0: all others
	Group     int          `yaml:"group"`     // each so many ranks by themselves; 0: all together
	Stride    int          `yaml:"stride"`    // of a group: how far apart its ranks are; 0: 1
	Skew      float64      `yaml:"skew"`      // all-to-all: exponent of Zipf's law for what each rank gets; 0: even
	Spread    float64      `yaml:"spread"`    // all-to-all: standard deviation of the logarithm of the sizes; 0: alike
	// File is what a workload is read from; see package workload.
	File string `yaml:"file"`

	StartSkew      fabric.Time `yaml:"start_skew"`      // ranks begin 0 to this late
	Stragglers     int         `yaml:"stragglers"`      // so many ranks are slow
	StragglerDelay fabric.Time `yaml:"straggler_delay"` // by which a straggler posts each message later than it could
	// ClearToSend: a rank sends a step's message when it and the receiver have come to that step, this much later; 0: when
	// it has.
	ClearToSend fabric.Time `yaml:"clear_to_send"`
}

// Workload is the kind of a collective that is a program of several.
const Workload = "workload"

// UnmarshalStrict implements [strictyaml.Unmarshaler]. A file is named relative to
// the scenario's.
func (c *Collective) UnmarshalStrict(d *strictyaml.Decoder, n *yaml.Node, path string) {
	meant := d.Fields(n, c, path)
	if n.Kind != yaml.MappingNode {
		return
	}
	if bytes := path + ".bytes"; !d.Given(bytes) && c.Kind != Workload && !slices.Contains(meant, "bytes") {
		d.Complain(bytes, "is missing", "add it; for example 16MB")
	}
	c.File = d.RelativePath(c.File)
}

// Name returns the operation and, when it is not the plain one, its algorithm:
// "all-reduce/halving-doubling". The size is not part of it.
func (c Collective) Name() string {
	if c.Kind == Workload {
		return c.Kind + "/" + strings.TrimSuffix(filepath.Base(c.File), filepath.Ext(c.File))
	}
	part := func(key string, much float64) string {
		if much == 0 {
			return ""
		}
		return "/" + key + "-" + strconv.FormatFloat(much, 'g', -1, 64)
	}
	name := c.Kind
	switch {
	case c.Skew != 0 || c.Spread != 0:
		name += part("skew", c.Skew) + part("spread", c.Spread)
	case c.Algorithm != "" && len(collective.Algorithms(c.Kind)) > 1:
		name += "/" + c.Algorithm
	}
	if c.Group != 0 {
		name += "/of-" + strconv.Itoa(c.Group)
	}
	if c.Stride > 1 {
		name += "-by-" + strconv.Itoa(c.Stride)
	}
	if c.StartSkew != 0 {
		name += "/start-skew-" + c.StartSkew.String()
	}
	if c.Stragglers != 0 {
		name += fmt.Sprintf("/%d-stragglers-by-%v", c.Stragglers, c.StragglerDelay)
	}
	if c.ClearToSend != 0 {
		name += "/clear-to-send-" + c.ClearToSend.String()
	}
	return name
}

func (c Collective) String() string {
	if c.Kind == Workload {
		return c.Name()
	}
	return c.Name() + " " + c.Bytes.String()
}

// Spec returns the collective as [collective.New] takes it.
func (c Collective) Spec(ranks int, seed uint64) collective.Spec {
	return collective.Spec{
		Kind: c.Kind, Algorithm: c.Algorithm, Ranks: ranks, Bytes: int64(c.Bytes),
		Shift: c.Shift, Seed: seed, Target: c.Target, Senders: c.Senders, Skew: c.Skew, Spread: c.Spread,
		Group: c.Group, Stride: c.Stride,
	}
}

// Scheme is a load balancer and its parameters.
type Scheme struct {
	Name   string            `yaml:"name" required:"for example ethereal"`
	Params map[string]string `yaml:"params"`
}

// Names of schemes, of which [balance.Names] has more.
const (
	Ethereal = balance.Ethereal
	ECMP     = balance.ECMP
)

// Spec returns what there is to know about the scheme. The error says that it is
// unknown, as [Scenario.Expand] would have.
func (s Scheme) Spec() (balance.Spec, error) { return balance.Find(s.Name) }

// SchemeNames returns the schemes a scenario may name.
func SchemeNames() []string { return balance.Names() }

// String returns the name and the parameters in the order of their names:
// "reps(entropies=8)".
func (s Scheme) String() string {
	if len(s.Params) == 0 {
		return s.Name
	}
	ps := make([]string, 0, len(s.Params))
	for k, v := range s.Params {
		ps = append(ps, k+"="+v)
	}
	slices.Sort(ps)
	return s.Name + "(" + strings.Join(ps, ",") + ")"
}

// Failure is a named case: what happens to the fabric during a run, and which
// of the ways to the hosts are tried, one run each.
type Failure struct {
	Name      string     `yaml:"name" required:"the case's name goes into every result"`
	Events    []Event    `yaml:"events"` // none: a healthy fabric
	Notifiers []Notifier `yaml:"notifiers"`

	// Case is the name without the time that was picked of several; "": Name.
	Case string `yaml:"-"`
}

// Notifier is a way in which hosts learn of a dead link. The retransmission
// timer runs under all of them.
type Notifier string

// Notifiers.
const (
	NotifyNone    Notifier = "none"    // nothing fails
	NotifyTimeout Notifier = "timeout" // the retransmission timer alone
	NotifyQuench  Notifier = "quench"  // the switches' data plane
	NotifyGNMI    Notifier = "gnmi"    // gNMI, the controller, its push to the agents
	NotifyAll     Notifier = "all"     // all of them; the first word counts
)

// Quench reports whether the switches' data plane may speak.
func (n Notifier) Quench() bool { return n == NotifyQuench || n == NotifyAll }

// GNMI reports whether switches may report to the controller, which repairs
// tables and notifies the agents.
func (n Notifier) GNMI() bool { return n == NotifyGNMI || n == NotifyAll }

// Seeds are the seeds of a scenario, one run of everything each. In YAML they
// are a number, a list, or a range such as 1..10.
type Seeds []uint64

// Default returns a scenario that holds the defaults: the constants of the
// reference evaluation where it has them.
func Default() Scenario {
	return Scenario{
		Opponents: AsPublished,
		Switch: Switch{
			Buffer:         64e6,
			Alpha:          1,
			ECN:            ECN{KMin: 800e3, KMax: 800e3, PMax: 1},
			Cell:           256,
			QuenchInterval: 10 * fabric.Microsecond,
		},
		Host: Host{
			Payload:           9000,
			AckEvery:          1,
			RTO:               fabric.Millisecond,
			CongestionControl: endpoint.DCTCP,
			Receiver:          SchemeReceiver,
			ReorderWindow:     endpoint.DefaultReorderWindow,
			Carrier:           UDPSourcePort,
			NudgeOnFlip:       true,
			TailProbe:         true,
			ResendOnFlip:      true,
			Completion:        OnArrival,
		},
		Agent: Agent{
			FailedPathMemory: 100 * fabric.Millisecond,
			BatchWindow:      100 * fabric.Nanosecond,
			StartJitter:      50 * fabric.Nanosecond,
		},
		Control: Control{
			GNMIDelay:    50 * fabric.Microsecond,
			ComputeDelay: 10 * fabric.Microsecond,
			WriteDelay:   50 * fabric.Microsecond,
			PushDelay:    20 * fabric.Microsecond,
			Damping:      Damping{Suppress: 2500, Reuse: 750, Longest: 60 * fabric.Second},
			StartWait:    rollout.DefaultStartWait,
			StageTimeout: rollout.DefaultStageTimeout,
			TablesWait:   rollout.DefaultTablesWait,
		},
		Failures: []Failure{{Name: "healthy"}},
		Seeds:    Seeds{1},
		Deadline: 100 * fabric.Millisecond,
	}
}
