package scenario

import (
	"cmp"
	"fmt"
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
	"github.com/ethereal-fabric/ethereal/roce/transport"
	"github.com/ethereal-fabric/ethereal/testbed/balance"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// Scenario is an experiment. A field tagged required must be given; the defaults of the others are in [Default] or
// the [Preset]. Package strictyaml reads it.
type Scenario struct {
	Name        string       `yaml:"name" required:"the scenario's name goes into every result"`
	Description string       `yaml:"description"`
	Preset      string       `yaml:"preset"`    // source of omitted keys' values; "": the defaults
	Opponents   string       `yaml:"opponents"` // form in which the other schemes run: see [OpponentForms]
	Fabric      fabric.Spec  `yaml:"fabric" required:"for example fabric: {kind: fat-tree, k: 4}"`
	Servers     Servers      `yaml:"servers"`
	Switch      Switch       `yaml:"switch"`
	Host        Host         `yaml:"host"`
	Agent       Agent        `yaml:"agent"`
	Control     Control      `yaml:"control"`
	Collectives []Collective `yaml:"collectives" required:"for example a list with - {kind: all-to-all, bytes: 16MB}"`
	Schemes     []Scheme     `yaml:"schemes" required:"for example schemes: [ethereal, ecmp]"`
	Failures    []Failure    `yaml:"failures"`
	// Steps are the events of the only failure case of a scenario without failures, and Notifiers that case's. The
	// reader converts them to Failures.
	Steps     []Event       `yaml:"steps"`
	Notifiers []Notifier    `yaml:"notifiers" was:"notifier"`
	Expect    []Expectation `yaml:"expect"`
	Worlds    Worlds        `yaml:"worlds"`
	Seeds     Seeds         `yaml:"seeds"`

	// FastForward selects the parts that the virtual world skips instead of simulating them packet by packet.
	FastForward FastForward `yaml:"fast_forward"`

	// Deadline is the simulated time after which an unfinished run is ended and reported as not finished.
	Deadline fabric.Time `yaml:"deadline"`

	// Slowed is the rate of all links in a world that cannot carry the fabric's rates; 0: the fabric's rates. See
	// [Scenario.ForWorld].
	Slowed fabric.Rate `yaml:"-"`
	// Moved describes the other fabric that [Scenario.Override] has set, for display.
	Moved string `yaml:"-"`
	// Stretched describes the changes of [Scenario.ForWorld], for display.
	Stretched string `yaml:"-"`
}

// FastForward selects the parts that the virtual world skips instead of simulating them packet by packet; "": none.
type FastForward string

// Repeats are collectives of a workload that have taken equally long twice in succession; see
// [workload.Runner.FastForward].
const Repeats FastForward = "repeats"

// Switch has the settings of all switches.
type Switch struct {
	Buffer fabric.Bytes `yaml:"buffer"` // shared by all ports of a switch
	// Alpha is the dynamic threshold: a queue may grow to Alpha times the free buffer.
	Alpha float64 `yaml:"alpha"`
	ECN   ECN     `yaml:"ecn"`
	PFC   PFC     `yaml:"pfc"`
	// Trim makes a switch cut a data packet to its header if its port's queue would exceed this size with it; 0:
	// never. In virtual time.
	Trim fabric.Bytes `yaml:"trim"`
	// Cell is the unit of queue depths in the P4 program.
	Cell fabric.Bytes `yaml:"cell"`
	// QuenchInterval is the minimum time between two quenches to one source for one port, in whole microseconds.
	QuenchInterval fabric.Time `yaml:"quench_interval"`
	// EqualHashes makes the switches of all tiers choose uplinks by the same bits of the hash, as switches with equal
	// hash seeds do: the hash polarises.
	EqualHashes bool `yaml:"equal_hashes"`
}

// QueueLimit returns the length that each of some equally long queues of a switch can reach: under dynamic thresholds
// it ends where it is Alpha times what is left of the buffer.
func (s Switch) QueueLimit(queues int) fabric.Bytes {
	return fabric.Bytes(float64(s.Buffer) * s.Alpha / (1 + s.Alpha*float64(queues)))
}

// ECN marks packets at random between two queue depths: none below KMin, a share rising to PMax at KMax, all above.
// Equal thresholds are a step; both 0 turn marking off.
type ECN struct {
	KMin fabric.Bytes `yaml:"kmin"`
	KMax fabric.Bytes `yaml:"kmax"`
	PMax float64      `yaml:"pmax"` // 0 to 1
}

// Host has the settings of every host's RoCEv2 endpoint.
type Host struct {
	Payload fabric.Bytes `yaml:"payload"` // bytes of payload in a full packet
	// Headers is the size of a full packet on the wire minus its payload, framing included; 0: the real headers.
	// Other packets are changed by the same number of bytes.
	Headers           fabric.Bytes      `yaml:"headers"`
	AckEvery          int               `yaml:"ack_every"` // number of packets per ACK
	RTO               fabric.Time       `yaml:"rto"`       // retransmission timer of a queue pair
	CongestionControl transport.Control `yaml:"congestion_control"`
	// CongestionParams are the rate control's parameters.
	CongestionParams map[string]string `yaml:"congestion_params"`
	Receiver         Receiver          `yaml:"receiver"`
	// ReorderWindow is the number of packets that a receiver with selective repeat can keep, from the first missing
	// one.
	ReorderWindow int     `yaml:"reorder_window"` // packets
	Carrier       Carrier `yaml:"carrier"`
	IPv6          bool    `yaml:"ipv6"`
	// TailProbe posts a zero-length write behind the last packets of a message if their answer is late, and on a
	// queue pair that changes its path with nothing left to send. So the receiver sees which packets are missing.
	TailProbe bool `yaml:"tail_probe"`
	// ResendOnFlip makes a queue pair that flips off a dead path retransmit its packets in flight at once. An RNIC
	// has no such command: it waits for a NAK or its timer.
	ResendOnFlip bool `yaml:"resend_on_flip"`
	// AckWhenAsked makes receivers that keep packets acknowledge only those that ask for it, and the packets that
	// complete a message, but not every packet that arrives out of order.
	AckWhenAsked bool `yaml:"ack_when_asked"`
	// Completion is the time at which a message counts as received.
	Completion Completion `yaml:"completion"`
}

// Completion is the time at which the receiver of a message may continue with the operations that wait for it.
type Completion string

// Completions.
const (
	OnArrival Completion = "arrival" // when the message's last byte arrives
	// OnAck is when the sender has the last ACK. The receiver then continues, as in ASTRA-sim's ns-3 and htsim's
	// triggers, although nothing notifies it in reality.
	OnAck Completion = "ack"
)

// Receiver is how hosts handle packets that arrive out of order.
type Receiver string

// Receivers.
const (
	SchemeReceiver  Receiver = "scheme" // the receiver that the scheme's authors assume
	GoBackN                  = Receiver(transport.GoBackN)
	SelectiveRepeat          = Receiver(transport.SelectiveRepeat)
	IdealReceiver            = Receiver(transport.Ideal)
)

// Receivers returns the names of all receivers.
func Receivers() []string {
	return append([]string{string(SchemeReceiver)}, transport.Names(transport.Transport)...)
}

// For returns the receiver for a scheme: go-back-N for an unknown one.
func (r Receiver) For(schemeName string) transport.Receiver {
	if r != SchemeReceiver && r != "" {
		return transport.Receiver(r)
	}
	spec, _ := balance.Find(schemeName)
	return cmp.Or(spec.Receiver, transport.GoBackN)
}

// SchemeControl is the rate control that the scheme's authors assume; DCTCP if they assume none.
const SchemeControl transport.Control = "scheme"

// Controls returns the names of all rate controls.
func Controls() []string {
	return append([]string{string(SchemeControl)}, transport.Names(transport.RateControl)...)
}

// ControlFor returns the rate control of hosts with a scheme.
func (h *Host) ControlFor(schemeName string) transport.Control {
	if h.CongestionControl != SchemeControl {
		return h.CongestionControl
	}
	spec, _ := balance.Find(schemeName)
	return cmp.Or(spec.Control, transport.DCTCP)
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

// Tables returns the fields in which switches look for labels, in IPv4 and in IPv6 packets.
func (c Carrier) Tables() (v4, v6 controller.Carrier) {
	switch c {
	case SRv6USID:
		return controller.NoCarrier, controller.MicroSegments
	case IPv6FlowLabel:
		return controller.UDPSourcePort, controller.FlowLabel
	}
	return controller.UDPSourcePort, controller.UDPSourcePort
}

// Agent has the settings of every host's agent.
type Agent struct {
	FailedPathMemory fabric.Time `yaml:"failed_path_memory"` // time for which a path stays dead without new reports
	BatchWindow      fabric.Time `yaml:"batch_window"`       // sends that close together are one batch
	StartJitter      fabric.Time `yaml:"start_jitter"`       // queue pairs start at random times up to this late
}

// Control is the delays of the control plane, and the settings of the controller that a run can change.
type Control struct {
	GNMIDelay    fabric.Time `yaml:"gnmi_delay"`    // switch to controller: a notification
	ComputeDelay fabric.Time `yaml:"compute_delay"` // time that the controller takes to compute tables
	WriteDelay   fabric.Time `yaml:"write_delay"`   // controller to switch, a P4Runtime write, and back: each
	PushDelay    fabric.Time `yaml:"push_delay"`    // controller to host agent: a link update

	RestoredAtOnce bool `yaml:"restored_at_once"` // notify agents of a repaired link before its tables are written
	// Damping sets the limits above which reports of a flapping port are ignored. Scenarios have it off; a caller that
	// replays a controller process sets that process's limits.
	Damping damping.Config `yaml:"-" json:"-"`
}

// Rollout returns the configuration of the controller's core, without its tables.
func (c Control) Rollout() rollout.Config {
	return rollout.Config{
		Damping: c.Damping, StartWait: rollout.DefaultStartWait, StageTimeout: rollout.DefaultStageTimeout,
		TablesWait: rollout.DefaultTablesWait, RestoredAtOnce: c.RestoredAtOnce,
	}
}

// Collective is one collective operation over all hosts.
type Collective struct {
	Kind      string       `yaml:"kind" required:"for example all-to-all"`
	Algorithm string       `yaml:"algorithm"` // algorithm of the kind; direct if empty
	Bytes     fabric.Bytes `yaml:"bytes"`     // required, except for a workload
	Shift     int          `yaml:"shift"`     // permutation: rank i sends to i+shift; 0: the run's seed draws a permutation, which is no shift
	Target    int          `yaml:"target"`    // incast: the rank that receives
	Senders   int          `yaml:"senders"`   // incast: number of senders; 0: all others
	Group     int          `yaml:"group"`     // number of ranks per group; each group runs alone; 0: all together
	Stride    int          `yaml:"stride"`    // distance between a group's ranks; 0: 1
	Channels  int          `yaml:"channels"`  // ring: number of rings, each with its part of the data; 0: 1
	Skew      float64      `yaml:"skew"`      // all-to-all: exponent of Zipf's law for each rank's share; 0: even
	Spread    float64      `yaml:"spread"`    // all-to-all: standard deviation of the logarithm of the sizes; 0: equal
	// File is the file of a workload; see package workload.
	File string `yaml:"file"`

	StartSkew      fabric.Time `yaml:"start_skew"`      // ranks begin up to this late
	Stragglers     int         `yaml:"stragglers"`      // number of slow ranks
	StragglerDelay fabric.Time `yaml:"straggler_delay"` // delay of each message that a straggler posts
	// ClearToSend: a rank sends a step's message this long after both it and the receiver have reached that step;
	// 0: as soon as the rank has.
	ClearToSend fabric.Time `yaml:"clear_to_send"`
}

// Workload is the kind of a collective that is a program of several collectives.
const Workload = "workload"

// UnmarshalStrict reads the value from YAML, for [strictyaml.Unmarshaler]. A file is relative to the scenario's
// folder.
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

// Name returns the operation and, if it is not the default, its algorithm: "all-reduce/halving-doubling". The size
// is not part of it.
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
	if c.Channels != 0 {
		name += "/channels-" + strconv.Itoa(c.Channels)
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

// Spec returns the collective in the form of [collective.New].
func (c Collective) Spec(ranks int, seed uint64) collective.Spec {
	return collective.Spec{
		Kind: c.Kind, Algorithm: c.Algorithm, Ranks: ranks, Bytes: int64(c.Bytes),
		Shift: c.Shift, Seed: seed, Target: c.Target, Senders: c.Senders, Skew: c.Skew, Spread: c.Spread,
		Group: c.Group, Stride: c.Stride, Channels: c.Channels,
	}
}

// Scheme is a load balancer and its parameters.
type Scheme struct {
	Name   string            `yaml:"name" required:"for example ethereal"`
	Params map[string]string `yaml:"params"`
}

// Names of schemes; [balance.Names] has more.
const (
	Ethereal = balance.Ethereal
	ECMP     = balance.ECMP
)

// Spec returns the scheme's description. The error says that it is unknown, as [Scenario.Expand] would have
// reported.
func (s Scheme) Spec() (balance.Spec, error) { return balance.Find(s.Name) }

// SchemeNames returns the names of all schemes.
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

// Failure is a named case: the events of a run, and the notifiers to try, one run each.
type Failure struct {
	Name      string     `yaml:"name" required:"the case's name goes into every result"`
	Events    []Event    `yaml:"events"` // none: a healthy fabric
	Notifiers []Notifier `yaml:"notifiers"`

	// Case is the name without the time picked from several; "": Name.
	Case string `yaml:"-"`
}

// Notifier is a mechanism by which hosts learn of a dead link. The retransmission timer runs under all of them.
type Notifier string

// Notifiers.
const (
	NotifyNone    Notifier = "none"    // nothing fails
	NotifyTimeout Notifier = "timeout" // the retransmission timer alone: no notification
	NotifyQuench  Notifier = "quench"  // source quenches of the switches' data plane
	NotifyGNMI    Notifier = "gnmi"    // gNMI, the controller, its push to the agents
	NotifyAll     Notifier = "all"     // all of them; the first notification counts
)

// Quench reports whether the switches' data plane may send quenches.
func (n Notifier) Quench() bool { return n == NotifyQuench || n == NotifyAll }

// GNMI reports whether switches may report to the controller, which repairs
// tables and notifies the agents.
func (n Notifier) GNMI() bool { return n == NotifyGNMI || n == NotifyAll }

// Seeds are the seeds of a scenario, one run of each combination per seed. In YAML they are a number, a list, or a
// range such as 1..10.
type Seeds []uint64

// Default returns a scenario with the defaults: the constants of the reference evaluation where it has them.
func Default() Scenario {
	return Scenario{
		Opponents: OpponentsAsPublished,
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
			CongestionControl: transport.DCTCP,
			Receiver:          SchemeReceiver,
			ReorderWindow:     transport.DefaultReorderWindow,
			Carrier:           UDPSourcePort,
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
			Damping:      damping.Config{Off: true},
		},
		Failures: []Failure{{Name: "healthy"}},
		Seeds:    Seeds{1},
		Deadline: 100 * fabric.Millisecond,
	}
}
