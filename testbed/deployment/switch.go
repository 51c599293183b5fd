package deployment

import (
	"context"
	"fmt"
	"strings"
	"time"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ethereal-fabric/ethereal/controller/backoff"
	"github.com/ethereal-fabric/ethereal/controller/daemon"
	"github.com/ethereal-fabric/ethereal/controller/linkstate"
	"github.com/ethereal-fabric/ethereal/controller/p4rt"
	"github.com/ethereal-fabric/ethereal/fabric"
)

// Dialer makes a connection, which must not block.
type Dialer func(addr string) (*grpc.ClientConn, error)

// Switch is a switch of the controller's targets file. Ports are the fabric's. It is safe for concurrent use.
type Switch struct {
	Name     string
	ports    int
	target   daemon.Target
	pipeline *p4rt.Pipeline
	dial     Dialer
}

// callLimit bounds one request to a switch.
const callLimit = 10 * time.Second

// gnmi connects to the switch's gNMI server.
func (s *Switch) gnmi() (*grpc.ClientConn, error) {
	if s.target.GNMI == "" {
		return nil, fmt.Errorf("%s has no gNMI server in the targets file", s.Name)
	}
	conn, err := s.dial(s.target.GNMI)
	if err != nil {
		return nil, fmt.Errorf("%s: gNMI at %s: %w", s.Name, s.target.GNMI, err)
	}
	return conn, nil
}

// ReportsPorts reports whether the switch serves its ports' states over gNMI, and accepts Sets of them.
func (s *Switch) ReportsPorts() bool { return s.target.GNMI != "" }

// SetEnabled enables a port, or disables it.
func (s *Switch) SetEnabled(ctx context.Context, port fabric.PortNo, enabled bool) error {
	conn, err := s.gnmi()
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // nothing is left to say
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	if err := linkstate.SetEnabled(ctx, conn, s.target.GNMITarget, s.target.Ports, port, enabled); err != nil {
		return fmt.Errorf("%s at %s: %w", s.Name, s.target.GNMI, err)
	}
	return nil
}

// NotUp returns the names of the fabric's ports that are not up, or that the switch does not name.
func (s *Switch) NotUp(ctx context.Context) (names []string, err error) {
	conn, err := s.gnmi()
	if err != nil {
		return nil, err
	}
	defer conn.Close() //nolint:errcheck // nothing is left to say
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	up, err := linkstate.ReadPortStates(ctx, conn, s.subscription())
	if err != nil {
		return nil, fmt.Errorf("%s at %s: %w", s.Name, s.target.GNMI, err)
	}
	for p := fabric.PortNo(1); int(p) <= s.ports; p++ {
		if !up[p] {
			names = append(names, s.Name+":"+s.target.Ports.Name(p))
		}
	}
	return names, nil
}

// watchRetryWait is the pause before a switch that ended its subscription is asked again.
const watchRetryWait = 100 * time.Millisecond

// Watch calls news with a text for each change at the switch's ports, until ctx ends. It calls synced when the states
// at the beginning have been received, and again after each reconnection.
func (s *Switch) Watch(ctx context.Context, synced func(), news func(text string)) error {
	conn, err := s.gnmi()
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // nothing is left to say
	fresh := false
	session, err := linkstate.NewSession(linkstate.SessionConfig{
		Target: s.target.GNMITarget, Ports: s.ports, Names: s.target.Ports,
		Backoff: backoff.Policy{First: watchRetryWait, Most: watchRetryWait, Factor: 1},
		OnHealth: func(h linkstate.Health, _ error) {
			if fresh = h == linkstate.Fresh; fresh {
				synced()
			}
		},
		OnChanges: func(changes []linkstate.Change) {
			if !fresh {
				return
			}
			var parts []string
			for _, c := range changes {
				kind := linkstate.Down
				if c.Up {
					kind = linkstate.Up
				}
				parts = append(parts, fmt.Sprintf("port %d %v", c.Port, kind))
			}
			news(strings.Join(parts, ", "))
		},
	}, conn)
	if err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	return session.Run(ctx)
}

// Cell is the value of one cell of a P4 counter.
type Cell struct{ Packets, Bytes int64 }

// Counted is one switch's counters, by name and index: a port of the fabric, or a reason.
type Counted map[string]map[int64]Cell

// Names of the P4 program's counters.
const (
	CounterData     = p4rt.CounterData     // data packets sent, by egress port
	CounterControl  = p4rt.CounterControl  // control packets sent, by egress port
	CounterDrops    = p4rt.CounterDrops    // packets dropped, by reason
	CounterFallback = p4rt.CounterFallback // packets rerouted around a dead port, by reason
)

// Counters reads the switch's counters without the primary role: those that its program has. If the program has
// none, the interfaces' counters count all packets as data. A switch that is dead, or has no program yet, has no
// counts.
func (s *Switch) Counters(ctx context.Context) (Counted, error) {
	conn, err := s.dial(s.target.P4Runtime)
	if err != nil {
		return nil, fmt.Errorf("%s at %s: %w", s.Name, s.target.P4Runtime, err)
	}
	defer conn.Close() //nolint:errcheck // nothing is left to say
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	client, out := s.pipeline.Client(conn), Counted{}
	for _, name := range []string{CounterData, CounterControl, CounterDrops, CounterFallback} {
		id, ok := s.pipeline.CounterID(name)
		if !ok {
			continue
		}
		cells := map[int64]Cell{}
		err := p4rt.ReadCounter(ctx, client, s.target.DeviceID, id, func(index int64, data *p4.CounterData) {
			if index, ok := s.portIndex(name, index); ok && data.GetPacketCount() != 0 {
				cells[index] = Cell{data.GetPacketCount(), data.GetByteCount()}
			}
		})
		switch code := status.Code(err); {
		case code == codes.Unavailable, code == codes.FailedPrecondition:
			return Counted{}, nil
		case err != nil:
			return nil, fmt.Errorf("%s at %s: %s: %w", s.Name, s.target.P4Runtime, name, err)
		}
		out[name] = cells
	}
	if len(out) == 0 && s.ReportsPorts() {
		return s.readCounters(ctx)
	}
	return out, nil
}

// portIndex returns the fabric's number for a counter's index; ok is false for a port that the fabric does not have.
func (s *Switch) portIndex(counter string, at int64) (_ int64, ok bool) {
	if counter != CounterData && counter != CounterControl {
		return at, true
	}
	p, ok := s.target.Ports.Port(uint32(at))
	return int64(p), ok
}

// readCounters reads the ports' sent packets and bytes, over gNMI.
func (s *Switch) readCounters(ctx context.Context) (Counted, error) {
	conn, err := s.gnmi()
	if err != nil {
		return nil, err
	}
	defer conn.Close() //nolint:errcheck // nothing is left to say
	sub := s.subscription()
	for p := 1; p <= s.ports; p++ {
		sub.Ports = append(sub.Ports, fabric.PortNo(p))
	}
	sent, err := linkstate.ReadSentCounters(ctx, conn, sub)
	switch status.Code(err) {
	case codes.OK:
	case codes.Unavailable, codes.NotFound, codes.Unimplemented, codes.InvalidArgument: // dead, or it does not count
		return Counted{}, nil
	default:
		return nil, fmt.Errorf("%s at %s: %w", s.Name, s.target.GNMI, err)
	}
	cells := map[int64]Cell{}
	for p, x := range sent {
		cells[int64(p)] = Cell(x)
	}
	return Counted{CounterData: cells}, nil
}

// subscription returns the subscription to the switch's ports.
func (s *Switch) subscription() linkstate.Subscription {
	return linkstate.Subscription{Target: s.target.GNMITarget, Names: s.target.Ports}
}

// Since returns the counts since an earlier reading. A switch that was restarted meanwhile counts from 0.
func (c Counted) Since(before Counted) Counted {
	out := Counted{}
	for name, cells := range c {
		out[name] = map[int64]Cell{}
		for i, x := range cells {
			if b := before[name][i]; b.Packets <= x.Packets {
				x = Cell{x.Packets - b.Packets, x.Bytes - b.Bytes}
			}
			out[name][i] = x
		}
	}
	return out
}
