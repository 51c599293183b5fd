package linkstate

import (
	"context"
	"fmt"

	"github.com/openconfig/gnmi/proto/gnmi"
	"google.golang.org/grpc"

	"github.com/ethereal-fabric/ethereal/controller/targets"
	"github.com/ethereal-fabric/ethereal/fabric"
)

// SetEnabled makes a switch enable or disable a port, by a gNMI Set of config/enabled. target names the switch to a
// gNMI server that serves several; names maps ports to interfaces; nil: Ethernet1, ...
func SetEnabled(
	ctx context.Context, conn grpc.ClientConnInterface, target string, names *targets.PortMap, port fabric.PortNo, enabled bool,
) error {
	name := names.Name(port)
	if name == "" {
		return fmt.Errorf("linkstate: port %d is not mapped to an interface", port)
	}
	request := &gnmi.SetRequest{Update: []*gnmi.Update{{
		Path: interfacePath(name, "config", "enabled"), Val: &gnmi.TypedValue{Value: &gnmi.TypedValue_BoolVal{BoolVal: enabled}},
	}}}
	if target != "" {
		request.Prefix = &gnmi.Path{Target: target}
	}
	if _, err := gnmi.NewGNMIClient(conn).Set(ctx, request); err != nil {
		return fmt.Errorf("linkstate: set enabled of %s: %w", name, err)
	}
	return nil
}
