package linkstate

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/openconfig/gnmi/proto/gnmi"
	"google.golang.org/grpc"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// SentCounters is the packets and bytes that a port has sent since its counters started.
type SentCounters struct{ Packets, Bytes int64 }

// ReadSentCounters asks for the interface counters of a subscription's ports.
func ReadSentCounters(ctx context.Context, conn grpc.ClientConnInterface, sub Subscription) (map[fabric.PortNo]SentCounters, error) {
	request := &gnmi.GetRequest{Encoding: sub.Encoding, Type: gnmi.GetRequest_STATE}
	if sub.Target != "" {
		request.Prefix = &gnmi.Path{Target: sub.Target}
	}
	for _, p := range sub.Ports {
		for _, leaf := range []string{"out-pkts", "out-octets"} {
			path := interfacePath(sub.Names.Name(p), "state", "counters")
			path.Elem = append(path.Elem, &gnmi.PathElem{Name: leaf})
			request.Path = append(request.Path, path)
		}
	}
	answer, err := gnmi.NewGNMIClient(conn).Get(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("linkstate: counters: %w", err)
	}
	out := map[fabric.PortNo]SentCounters{}
	for _, n := range answer.GetNotification() {
		for _, u := range n.GetUpdate() {
			name, rest, _ := splitInterfacePath(n.GetPrefix(), u.GetPath())
			p, ok := sub.Names.ByName(name)
			if !ok || len(rest) == 0 {
				continue
			}
			count, err := decodeNumber(u.GetVal())
			if err != nil {
				return nil, fmt.Errorf("%w: %s of %s: %w", ErrNotification, rest[len(rest)-1], name, err)
			}
			s := out[p]
			if rest[len(rest)-1] == "out-pkts" {
				s.Packets = count
			} else {
				s.Bytes = count
			}
			out[p] = s
		}
	}
	return out, nil
}

// decodeNumber returns a counter64, which JSON_IETF has in quotes.
func decodeNumber(v *gnmi.TypedValue) (int64, error) {
	switch x := v.GetValue().(type) {
	case *gnmi.TypedValue_UintVal:
		return int64(x.UintVal), nil
	case *gnmi.TypedValue_IntVal:
		return x.IntVal, nil
	case *gnmi.TypedValue_JsonIetfVal:
		return strconv.ParseInt(strings.Trim(string(x.JsonIetfVal), `" `), 10, 64)
	case *gnmi.TypedValue_JsonVal:
		return strconv.ParseInt(strings.Trim(string(x.JsonVal), `" `), 10, 64)
	}
	return 0, fmt.Errorf("a value of type %T", v.GetValue())
}
