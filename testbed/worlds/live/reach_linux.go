package live

import (
	"context"
	"fmt"
	"os"
	"syscall"

	"go.yaml.in/yaml/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/daemon"
	"github.com/ethereal-fabric/ethereal/controller/p4rt"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/adminhttp"
	"github.com/ethereal-fabric/ethereal/testbed/deployment"
)

// ReachableFabric returns the fabric's switches with their P4Runtime and gNMI addresses, for tests and tools that talk
// to them. gNMI is included even if the controller does not subscribe.
func (x *Fabric) ReachableFabric() (*deployment.Fabric, error) {
	text, err := yaml.Marshal(x.nodes(true))
	if err != nil {
		return nil, fmt.Errorf("live: %w", err)
	}
	file, err := daemon.ParseFile(x.path("targets.yaml"), text)
	if err != nil {
		return nil, err
	}
	cfg := daemon.Config{Core: controller.Config{Fabric: x.f}}
	if err := file.Apply(&cfg); err != nil {
		return nil, err
	}
	return deployment.Open(cfg, func(addr string) (*grpc.ClientConn, error) {
		return grpc.NewClient(addr, append(p4rt.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	})
}

// Actuator returns the part that carries out a run's events on the fabric.
func (x *Fabric) Actuator() (*deployment.Actuator, error) {
	reach, err := x.ReachableFabric()
	if err != nil {
		return nil, err
	}
	return &deployment.Actuator{
		Fabric: reach, Control: x.do, Admin: "unix:" + x.path("admin.sock"), Client: adminhttp.Client{Token: adminToken},
	}, nil
}

// enable takes a link up, or down, by a gNMI Set.
func (x *Fabric) enable(ctx context.Context, id fabric.LinkID, up bool) error {
	reach, err := x.ReachableFabric()
	if err != nil {
		return err
	}
	return reach.SetEnabled(ctx, id, up)
}

// do carries an order out.
func (x *Fabric) do(ctx context.Context, o deployment.Order) error {
	switch o.Do {
	case "controller-down":
		return x.killController()
	case "controller-up":
		x.mu.Lock()
		notifiers := x.notifiers
		x.mu.Unlock()
		if err := x.startController(ctx, notifiers); err != nil {
			return err
		}
		return x.awaitStatus(ctx, ready)
	case "gray", "rate", "link-down", "link-up":
		id, err := x.f.LinkByName(o.Name)
		if err != nil {
			return err
		}
		switch o.Do {
		case "gray":
			return x.setLoss(id, o.Direction, o.Loss)
		case "rate":
			return x.setRate(id, o.Direction, fabric.Rate(o.Rate))
		}
		// The other end loses its carrier, or gets it back.
		return x.wires[id][0].setUp(o.Do == "link-up")
	}
	id, err := x.f.NodeByName(o.Name)
	if err != nil {
		return err
	}
	switch o.Do {
	case "node-down":
		return x.KillSwitch(id)
	case "node-up":
		if x.runs(id) {
			return nil
		}
		return x.ReviveSwitch(ctx, id)
	case "agent-down", "agent-up":
		return x.stallHost(id, o.Do == "agent-down")
	}
	return fmt.Errorf("live: %q cannot be done here", o.Do)
}

// runs reports whether a switch's process does.
func (x *Fabric) runs(id fabric.NodeID) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	i := int(id) - x.f.Hosts()
	return i >= 0 && i < len(x.switches) && x.switches[i] != nil
}

// EventLog returns the path of the controllers' event log.
func (x *Fabric) EventLog() string { return x.path("controller.jsonl") }

// stallHost stops the process of a host, endpoint and agent alike, or lets it go on: what it has not read by then is
// still there.
func (x *Fabric) stallHost(id fabric.NodeID, stalled bool) error {
	n := x.host(id)
	if n == nil || n.proc == nil {
		return fmt.Errorf("live: node %d is no host that runs", id)
	}
	sig := syscall.SIGCONT
	if stalled {
		sig = syscall.SIGSTOP
	}
	if err := n.proc.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("live: %s: %w", x.f.Name(id), err)
	}
	return nil
}

// adminToken is the token that drains require. A user who can read the fabric's folder may drain.
const adminToken = "live-fabric-of-one-user"

// writeToken writes the token for the controller and returns the file.
func (x *Fabric) writeToken() (string, error) {
	path := x.path("token")
	if err := os.WriteFile(path, []byte(adminToken+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("live: %w", err)
	}
	return path, nil
}
