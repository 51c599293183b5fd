package live

import (
	"context"
	"fmt"
	"os"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/daemon"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/adminhttp"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// Notifiers selects how hosts learn of failures, and configures the controller accordingly.
type Notifiers struct {
	Quench bool // switches answer packets for a dead port by source quenches
	GNMI   bool // switches report ports; the controller repairs tables and notifies agents
	// QuenchInterval is the shortest time between two quenches to one source for one port. 0: 10 us.
	QuenchInterval fabric.Time
	// Packets get ECN marks between KMin and KMax bytes of queue, with a probability rising to PMax; KMax 0: never.
	KMin, KMax fabric.Bytes
	PMax       float64
	HashSeed   uint32
	// EqualHashes makes the switches of all tiers use the same bits of the ECMP hash.
	EqualHashes bool
	Carrier     scenario.Carrier // field that carries labels; empty: the UDP source port
}

// ControllerSocket returns the address at which agents reach the controller.
func (x *Fabric) ControllerSocket() string { return x.path("controller.sock") }

// StartController starts a controller and waits until it is primary at all switches and their tables are written. A
// running one is stopped first.
func (x *Fabric) StartController(ctx context.Context, n Notifiers) error {
	if err := x.startController(ctx, n); err != nil {
		return err
	}
	return x.Converged(ctx)
}

// startController starts a controller.
func (x *Fabric) startController(ctx context.Context, n Notifiers) error {
	if err := x.cfg.reads(n.Carrier); err != nil {
		return err
	}
	x.StopController(ctx)
	nodes := x.nodes(n.GNMI)
	hosts := map[string]map[string]string{}
	for h := range x.f.Hosts() {
		id := fabric.NodeID(h)
		hosts[x.f.Name(id)] = map[string]string{"admin": "unix:" + x.agentSocket(id)}
	}
	nodes["hosts"] = hosts
	if err := x.writeTargets(nodes, n); err != nil {
		return err
	}
	token, err := x.writeToken()
	if err != nil {
		return err
	}
	args := []string{
		"controller", "--fabric", x.path("fabric.yaml"), "--targets", x.path("targets.yaml"), "--listen-agents", "unix:" + x.ControllerSocket(),
		"--listen-admin", "unix:" + x.path("admin.sock"), "--event-log", x.EventLog(), "--log-level", "info", "--admin-token-file", token,
	}
	p, err := x.thread.startController(x.dir, args, x.cfg.Page, x.ended)
	if err != nil {
		return err
	}
	x.mu.Lock()
	x.controller, x.notifiers = p, n
	x.mu.Unlock()
	return nil
}

// nodes returns the content of a targets file: the switches, their program, and the label carriers in their tables.
// With events, the controller subscribes to the switches' ports.
func (x *Fabric) nodes(events bool) map[string]any {
	v4, v6 := scenario.UDPSourcePort.Tables()
	nodes := map[string]any{
		"programs": x.cfg.programs(), "tables": map[string]controller.Carrier{"carrier_v4": v4, "carrier_v6": v6},
	}
	switches := map[string]daemon.FileTarget{}
	for i := range x.f.Switches() {
		id := fabric.NodeID(x.f.Hosts() + i)
		number := deviceID(id)
		t := daemon.FileTarget{P4Runtime: "unix:" + x.Socket(id), DeviceID: &number}
		switch at := x.gnmiSocket(id); {
		case !events:
			t.GNMI = daemon.NoGNMI
		case at != x.Socket(id):
			t.GNMI = "unix:" + at
		}
		x.cfg.describe(&t, x.f.Node(id).Ports())
		switches[x.f.Name(id)] = t
	}
	nodes["switches"] = switches
	return nodes
}

// writeTargets writes the controller's file: nodes, which are its switches and hosts, and the tables that n asks for.
func (x *Fabric) writeTargets(nodes map[string]any, n Notifiers) error {
	if n.QuenchInterval == 0 {
		n.QuenchInterval = 10 * fabric.Microsecond
	}
	type tables struct {
		QuenchInterval  string `yaml:"quench_interval"`
		ControlPriority int    `yaml:"control_priority"`
		HashSeed        uint32 `yaml:"hash_seed"`
		EqualHashes     bool   `yaml:"equal_hashes"`

		CarrierV4 controller.Carrier `yaml:"carrier_v4"`
		CarrierV6 controller.Carrier `yaml:"carrier_v6"`

		ECN struct {
			KMin string  `yaml:"kmin"`
			KMax string  `yaml:"kmax"`
			PMax float64 `yaml:"pmax"`
			Unit string  `yaml:"unit"`
		} `yaml:"ecn"`
	}
	t := tables{QuenchInterval: "0us", ControlPriority: 1, HashSeed: n.HashSeed, EqualHashes: n.EqualHashes}
	t.CarrierV4, t.CarrierV6 = n.Carrier.Tables()
	if n.Quench {
		t.QuenchInterval = n.QuenchInterval.String()
	}
	t.ECN.KMin, t.ECN.KMax, t.ECN.PMax = n.KMin.String(), n.KMax.String(), n.PMax
	t.ECN.Unit = fabric.Bytes(x.cfg.Payload + headroom).String()
	nodes["tables"] = t
	// A probe and its answer pass through some ten processes that share the cores: on a busy machine each can wait for
	// 100 ms, and each drops what exceeds its buffers. Only lost probes take the whole time.
	nodes["suspicion"] = map[string]any{"probe_timeout": "2s", "probe_every": "50ms", "trials": 4}
	text, err := yaml.Marshal(nodes)
	if err == nil {
		err = os.WriteFile(x.path("targets.yaml"), text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("live: %w", err)
	}
	return nil
}

// controllerStatus is what matters here of daemon.Status.
type controllerStatus struct {
	Started, Ready, Busy bool
	NotUp                []struct{ Name string } `json:"links_not_up"`
}

// done reports whether the controller has all switches in hand, and nothing to write.
func (s controllerStatus) done() bool { return s.Ready && !s.Busy && len(s.NotUp) == 0 }

// Converged waits until the controller is primary at all switches and has nothing to write. Without a controller it
// returns at once.
func (x *Fabric) Converged(ctx context.Context) error {
	return x.awaitStatus(ctx, controllerStatus.done)
}

// ready is the state that the controller can reach while links are down, or held down after flaps.
func ready(now controllerStatus) bool { return now.Ready }

// awaitStatus waits until the controller reports the wanted state.
func (x *Fabric) awaitStatus(ctx context.Context, wanted func(controllerStatus) bool) error {
	x.mu.Lock()
	p := x.controller
	x.mu.Unlock()
	if p == nil {
		return nil
	}
	return WaitFor(ctx, StartLimit, "the controller has all switches in hand", func() (bool, error) {
		if err := p.Ended(); err != nil {
			return true, err
		}
		var s controllerStatus
		if err := new(adminhttp.Client).Get(ctx, "unix:"+x.path("admin.sock"), "/status", statusTimeout, &s); err != nil {
			return false, err
		}
		if !wanted(s) {
			return false, fmt.Errorf("%+v", s)
		}
		return true, nil
	})
}

// statusTimeout is the time limit for a controller's answer about its status.
const statusTimeout = 2 * time.Second

// StopController stops the controller, if one runs. The switches keep their tables.
func (x *Fabric) StopController(ctx context.Context) {
	x.mu.Lock()
	p := x.controller
	x.controller = nil
	x.mu.Unlock()
	if p != nil {
		p.Stop(ctx, 2*time.Second)
	}
}

// killController kills the controller, as a crash would. The switches go on as they are.
func (x *Fabric) killController() error {
	x.mu.Lock()
	p := x.controller
	x.controller = nil
	x.mu.Unlock()
	if p == nil {
		return fmt.Errorf("live: there is no controller")
	}
	p.Kill()
	return nil
}
