package runner

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/openconfig/gnmi/proto/gnmi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/ethereal-fabric/ethereal/controller/linkstate"
	"github.com/ethereal-fabric/ethereal/fabric"
)

// dialer makes a connection, which must not block.
type dialer func(addr string) (*grpc.ClientConn, error)

func insecureDial(addr string) (*grpc.ClientConn, error) {
	return grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
}

// SetEnabled asks the gNMI server at addr to enable a port, or to disable it.
func SetEnabled(ctx context.Context, dial func(addr string) (*grpc.ClientConn, error), addr string, port fabric.PortNo, enabled bool) error {
	conn, err := dial(addr)
	if err != nil {
		return fmt.Errorf("gNMI at %s: %w", addr, err)
	}
	defer conn.Close() //nolint:errcheck // nothing is left to say
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err = gnmi.NewGNMIClient(conn).Set(ctx, &gnmi.SetRequest{Update: []*gnmi.Update{{
		Path: &gnmi.Path{Elem: []*gnmi.PathElem{
			{Name: "interfaces"}, {Name: "interface", Key: map[string]string{"name": linkstate.PortName(port)}},
			{Name: "config"}, {Name: "enabled"},
		}},
		Val: &gnmi.TypedValue{Value: &gnmi.TypedValue_BoolVal{BoolVal: enabled}},
	}}})
	if err != nil {
		return fmt.Errorf("gNMI Set at %s: %w", addr, err)
	}
	return nil
}

// portNews is what a switch told of its ports.
type portNews struct {
	at   int64 // ns of the clock
	node fabric.NodeID
	text string
}

// watchPorts subscribes to a switch's ports and hands on what changes, until ctx
// ends. A switch that dies is asked again.
func watchPorts(ctx context.Context, dial dialer, addr string, id fabric.NodeID, clock func() int64, out chan<- portNews) error {
	conn, err := dial(addr)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // nothing is left to say
	request, err := linkstate.Subscription{}.Request()
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		listenPorts(ctx, gnmi.NewGNMIClient(conn), request, id, clock, out)
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	return ctx.Err()
}

// listenPorts follows one subscription to its end.
func listenPorts(ctx context.Context, client gnmi.GNMIClient, request *gnmi.SubscribeRequest, id fabric.NodeID, clock func() int64, out chan<- portNews) {
	stream, err := client.Subscribe(ctx, grpc.WaitForReady(true))
	if err != nil || stream.Send(request) != nil {
		return
	}
	states := map[fabric.PortNo]linkstate.Kind{} // heartbeats tell no news
	for synced := false; ; {
		m, err := stream.Recv()
		if err != nil {
			return
		}
		at := clock()
		synced = synced || m.GetSyncResponse()
		events, err := linkstate.Decode(m.GetUpdate(), nil)
		if err != nil {
			continue // what the switch says of other things
		}
		var parts []string
		for _, e := range events {
			if last, known := states[e.Port]; !known || last != e.Kind {
				states[e.Port] = e.Kind
				parts = append(parts, fmt.Sprintf("port %d %v", e.Port, e.Kind))
			}
		}
		if synced && len(parts) > 0 {
			out <- portNews{at, id, strings.Join(parts, ", ")}
		}
	}
}
