package daemon

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/backoff"
	"github.com/ethereal-fabric/ethereal/controller/damping"
	"github.com/ethereal-fabric/ethereal/controller/eventlog"
	"github.com/ethereal-fabric/ethereal/controller/p4rt"
	"github.com/ethereal-fabric/ethereal/controller/rollout"
	"github.com/ethereal-fabric/ethereal/controller/suspicion"
	"github.com/ethereal-fabric/ethereal/controller/targets"
	"github.com/ethereal-fabric/ethereal/controller/targets/kinds"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/durable"
)

// ErrConfig is wrapped by the errors of [New] and of [ReadFile].
var ErrConfig = errors.New("daemon: bad config")

// Target is how to reach a switch, and what kind of switch it is.
type Target struct {
	P4Runtime string // address of the P4Runtime server, host:port
	// GNMI is host:port of the gNMI server, which may be the same. Empty: the switch has none; its links' states are
	// known from the other ends.
	GNMI       string
	GNMITarget string // names the switch to a gNMI server that serves several
	DeviceID   uint64 // P4Runtime device id
	// Admin is the address, host:port or unix:PATH, where the switch reports over HTTP how many packets it drops and
	// why. Empty: none.
	Admin string
	// Profile is the kind of switch; nil: targets.Default.
	Profile *targets.Profile
	Ports   *targets.PortMap // numbers and names of the ports on the switch; nil: the fabric's
	// the switch's P4 program; nil: Config's
	Pipeline *p4rt.Pipeline
}

// Kind returns the kind of switch.
func (t Target) Kind() *targets.Profile {
	if t.Profile == nil {
		return kinds.Default()
	}
	return t.Profile
}

// Config sets up a [Daemon].
type Config struct {
	Core     controller.Config
	Pipeline *p4rt.Pipeline
	Targets  map[fabric.NodeID]Target // every switch of the fabric
	// Own is the controller's own number; see [p4rt.SessionConfig].
	Own uint64
	// Dial makes a connection, without blocking. It is called once per address.
	Dial func(addr string) (*grpc.ClientConn, error)

	// SwitchTLS returns the configuration of the next connection to a switch's Admin; nil: without TLS.
	SwitchTLS func() *tls.Config

	// Settle is the longest wait at the start for the states of all ports. 0: 5 s.
	Settle time.Duration
	// StageTimeout is the longest wait for the acknowledgements of one stage of table writes. 0: 1 s.
	StageTimeout time.Duration
	// SurveyTimeout is the longest time for requests and pushes to one switch by Survey and CheckCabling. 0: 10 s.
	SurveyTimeout time.Duration
	// Heartbeat is the interval of gNMI subscriptions' heartbeats. 0: 5 s.
	Heartbeat time.Duration
	// KeepAlive is the interval of P4Runtime sessions' keep-alives. 0: 5 s.
	KeepAlive time.Duration
	// Audit is the interval at which a switch's tables are read and compared without a reason. 0: never.
	Audit     time.Duration
	BatchSize int // largest number of updates in one request; 0: 500
	History   int // updates kept for agents that resume; 0: 4096
	Backoff   backoff.Policy
	Damping   damping.Config
	// Suspicion configures how the agents' reports of time-outs are combined; its Fabric is Core's.
	Suspicion suspicion.Config
	// StateFile is the file that keeps the drains over a restart. Empty: a restart forgets them, unless a peer has
	// them.
	StateFile string
	// Files is the file system of StateFile. Nil: the operating system's.
	Files durable.FS
	// Peers are the agents' addresses of the other controllers of these switches, which agree on the drains.
	Peers []string
	// DialPeer makes a connection to a peer; nil: Dial.
	DialPeer func(addr string) (*grpc.ClientConn, error)
	// Token is the secret without which operators and peers can change nothing. Empty: nobody can.
	Token string

	// Loads is the interval at which the switches' counters of sent bytes are read. 0: never.
	Loads time.Duration
	// View serves a web page that shows the live fabric; see [Daemon.View]. It requires Loads.
	View bool

	Metrics []prometheus.Collector // of the process, beside the daemon's

	Log    *slog.Logger  // nil: silent
	Events *eventlog.Log // nil: none
}

func (c Config) withDefaults() Config {
	if c.Files == nil {
		c.Files = durable.OS
	}
	c.Settle = cmp.Or(c.Settle, duration(rollout.DefaultStartWait))
	c.StageTimeout = cmp.Or(c.StageTimeout, duration(rollout.DefaultStageTimeout))
	c.SurveyTimeout = cmp.Or(c.SurveyTimeout, 10*time.Second)
	if c.Core.MaxGroupSize == 0 {
		c.Core.MaxGroupSize = c.groupLimit()
	}
	if c.History == 0 {
		c.History = 4096
	}
	if c.View && c.Events == nil {
		c.Events = eventlog.New(io.Discard)
	}
	if c.DialPeer == nil {
		c.DialPeer = c.Dial
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// rollout returns the core's configuration.
func (c Config) rollout() rollout.Config {
	r := rollout.Config{
		Core: c.Core, Damping: c.Damping, Suspicion: &c.Suspicion, Peers: len(c.Peers) > 0, TablesWait: rollout.DefaultTablesWait,
		StartWait: fabricTime(c.Settle), StageTimeout: fabricTime(c.StageTimeout), Audit: fabricTime(c.Audit),
		ReadableEntries: func(id fabric.NodeID, es []controller.Entry) []controller.Entry {
			return c.pipeline(id).Schema().ExpectedEntries(es)
		},
		ReportsNoPorts: func(id fabric.NodeID) bool { return c.Targets[id].GNMI == "" },
	}
	if c.StateFile != "" {
		r.StoreMarks = c.keepDrained
	}
	for _, t := range c.Targets {
		if t.Kind().NotifyPorts {
			r.NotifyPorts = func(id fabric.NodeID) bool { return c.Targets[id].Kind().NotifyPorts }
		}
	}
	return r
}

// Validate returns the first error in c.
func (c Config) Validate() error {
	if err := c.Core.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	switch {
	case c.Pipeline == nil:
		return fmt.Errorf("%w: Pipeline: missing", ErrConfig)
	case c.Dial == nil:
		return fmt.Errorf("%w: Dial: missing", ErrConfig)
	case len(c.Peers) > 0 && c.Token == "":
		return fmt.Errorf("%w: Token: missing; peers need one", ErrConfig)
	case c.View && c.Loads <= 0:
		return fmt.Errorf("%w: View: needs Loads", ErrConfig)
	case c.Own == 0:
		return fmt.Errorf("%w: the election id must be above 0", ErrConfig)
	}
	if limit := c.groupLimit(); limit > 0 && c.Core.MaxGroupSize > limit {
		return fmt.Errorf("%w: MaxGroupSize: %d; the switches' programs allow %d", ErrConfig, c.Core.MaxGroupSize, limit)
	}
	if n := c.Core.Fabric.Switches(); len(c.Targets) > n {
		return fmt.Errorf("%w: targets: %d for %d switches", ErrConfig, len(c.Targets), n)
	}
	if err := c.checkCarriers(); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	var bad error
	checkTargets(c.Core.Fabric, c.Targets, func(_ fabric.NodeID, problem string) {
		if bad == nil {
			bad = fmt.Errorf("%w: targets: %s", ErrConfig, problem)
		}
	})
	return bad
}

// checkCarriers returns an error for a label carrier that some switch cannot read.
func (c *Config) checkCarriers() error {
	for _, id := range slices.Sorted(maps.Keys(c.Targets)) {
		kind := c.Targets[id].Kind()
		if problem, remedy, ok := kind.ReadsLabels(c.Core.CarrierV4, c.Core.CarrierV6); !ok {
			return fmt.Errorf("%s is a %s, which %s; %s", c.Core.Fabric.Name(id), kind.Name, problem, remedy)
		}
	}
	return nil
}

// checkTargets calls say for each switch without target, and for each target without address.
func checkTargets(f *fabric.Fabric, targets map[fabric.NodeID]Target, say func(id fabric.NodeID, problem string)) {
	for i := range f.Switches() {
		id := fabric.NodeID(f.Hosts() + i)
		t, ok := targets[id]
		switch {
		case !ok:
			say(id, f.Name(id)+" is missing")
		case t.P4Runtime == "":
			say(id, f.Name(id)+": p4runtime: missing; write host:port")
		}
	}
}

// groupLimit returns the largest group, in shares, that the programs of all switches can hold; 0 if none states a
// limit. Tables follow from the links alone, so all switches have one limit.
func (c *Config) groupLimit() int {
	limit := 0
	consider := func(p *p4rt.Pipeline) {
		if p == nil {
			return
		}
		if n := p.Schema().MaxGroupSize(); n > 0 && (limit == 0 || n < limit) {
			limit = n
		}
	}
	if len(c.Targets) == 0 {
		consider(c.Pipeline)
	}
	for _, t := range c.Targets {
		if t.Pipeline != nil {
			consider(t.Pipeline)
		} else {
			consider(c.Pipeline)
		}
	}
	return limit
}

// pipeline returns a switch's program, in its dialect.
func (c *Config) pipeline(id fabric.NodeID) *p4rt.Pipeline {
	t := c.Targets[id]
	p := c.Pipeline
	if t.Pipeline != nil {
		p = t.Pipeline
	}
	return p.ForDialect(p4rt.NewDialect(t.Kind(), id, t.Ports))
}

// PipelineOf returns the P4 program of a switch, with the names and port numbers of its kind.
func (c *Config) PipelineOf(id fabric.NodeID) *p4rt.Pipeline { return c.pipeline(id) }

// batchSize returns the largest number of updates in one request to a switch.
func (c *Config) batchSize(id fabric.NodeID) int {
	n := c.BatchSize
	if most := c.Targets[id].Kind().BatchSize; most > 0 && (n == 0 || n > most) {
		n = most
	}
	return n
}
