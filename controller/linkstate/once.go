package linkstate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/openconfig/gnmi/proto/gnmi"
	"google.golang.org/grpc"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// ReadPortStates asks for the present states of a switch's ports, without subscribing.
func ReadPortStates(ctx context.Context, conn grpc.ClientConnInterface, sub Subscription) (map[fabric.PortNo]bool, error) {
	states, _, err := ReadPortStatesAt(ctx, conn, sub)
	return states, err
}

// ReadPortStatesAt is [ReadPortStates], and also returns the time of the last notification on the switch's clock; zero
// if there is none.
func ReadPortStatesAt(ctx context.Context, conn grpc.ClientConnInterface, sub Subscription) (_ map[fabric.PortNo]bool, at time.Time, err error) {
	states, err := subscribeOnce(ctx, conn, sub, &at)
	return states, at, err
}

func subscribeOnce(ctx context.Context, conn grpc.ClientConnInterface, sub Subscription, at *time.Time) (map[fabric.PortNo]bool, error) {
	request, err := sub.Request()
	if err != nil {
		return nil, err
	}
	list := request.GetSubscribe()
	list.Mode = gnmi.SubscriptionList_ONCE
	stream, err := gnmi.NewGNMIClient(conn).Subscribe(ctx)
	if err != nil {
		return nil, fmt.Errorf("linkstate: %w", err)
	}
	if err := stream.Send(request); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("linkstate: %w", err)
	}
	if err := stream.CloseSend(); err != nil {
		return nil, fmt.Errorf("linkstate: %w", err)
	}
	states := map[fabric.PortNo]bool{}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return states, nil
		}
		if err != nil {
			return nil, fmt.Errorf("linkstate: %w", err)
		}
		if m.GetSyncResponse() {
			return states, nil
		}
		if ns := m.GetUpdate().GetTimestamp(); ns > 0 {
			*at = time.Unix(0, ns)
		}
		events, err := Decode(m.GetUpdate(), sub.Names)
		if err != nil {
			return nil, err
		}
		for _, e := range events {
			if e.Kind != Speed {
				states[e.Port] = e.Kind == Up
			}
		}
	}
}
