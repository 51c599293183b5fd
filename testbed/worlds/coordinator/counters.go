package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/p4src"
)

// Cell is one cell of a P4 counter.
type Cell struct{ Packets, Bytes int64 }

// Counted is what one switch has counted, by the counter's name and index.
type Counted map[string]map[int64]Cell

// Counters reads what switches counted.
type Counters interface {
	Read(ctx context.Context, id fabric.NodeID) (Counted, error)
}

// Target is how a switch is reached over P4Runtime.
type Target struct {
	Addr     string // HOST:PORT or unix:PATH
	DeviceID uint64
}

// P4Counters reads counters over P4Runtime, without being the switches' primary.
type P4Counters struct {
	targets map[fabric.NodeID]Target
	dial    func(addr string) (*grpc.ClientConn, error)
	ids     map[uint32]string
}

// NewP4Counters returns a reader of the P4 program's counters. dial may be nil:
// connections are then without TLS.
func NewP4Counters(targets map[fabric.NodeID]Target, dial func(addr string) (*grpc.ClientConn, error)) *P4Counters {
	if dial == nil {
		dial = func(addr string) (*grpc.ClientConn, error) {
			return grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		}
	}
	c := &P4Counters{targets: targets, dial: dial, ids: map[uint32]string{}}
	for _, x := range p4src.V1ModelP4Info().GetCounters() {
		switch name := x.GetPreamble().GetName(); name {
		case CounterData, counterControl, counterDrops, counterFallback:
			c.ids[x.GetPreamble().GetId()] = name
		}
	}
	return c
}

// Names of the P4 program's counters.
const (
	CounterData     = "port_tx_data"    // by egress port
	counterControl  = "port_tx_control" // by egress port
	counterDrops    = "drops"           // by reason
	counterFallback = "fallback"        // by reason
)

// Read implements [Counters].
func (c *P4Counters) Read(ctx context.Context, id fabric.NodeID) (Counted, error) {
	t, ok := c.targets[id]
	if !ok {
		return nil, fmt.Errorf("coordinator: switch %d has no address", id)
	}
	conn, err := c.dial(t.Addr)
	if err != nil {
		return nil, fmt.Errorf("coordinator: %s: %w", t.Addr, err)
	}
	defer conn.Close() //nolint:errcheck // nothing is left to say
	q := &p4.ReadRequest{DeviceId: t.DeviceID}
	for counter := range c.ids {
		q.Entities = append(q.Entities, &p4.Entity{Entity: &p4.Entity_CounterEntry{CounterEntry: &p4.CounterEntry{CounterId: counter}}})
	}
	stream, err := p4.NewP4RuntimeClient(conn).Read(ctx, q)
	out := Counted{}
	for err == nil {
		var r *p4.ReadResponse
		if r, err = stream.Recv(); err != nil {
			break
		}
		for _, e := range r.GetEntities() {
			x := e.GetCounterEntry()
			name := c.ids[x.GetCounterId()]
			if out[name] == nil {
				out[name] = map[int64]Cell{}
			}
			if d := x.GetData(); d.GetPacketCount() != 0 {
				out[name][x.GetIndex().GetIndex()] = Cell{d.GetPacketCount(), d.GetByteCount()}
			}
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("coordinator: %s: read counters: %w", t.Addr, err)
	}
	return out, nil
}

// since returns what was counted after before, which was counted earlier. A
// switch that was restarted meanwhile began at 0 again.
func (c Counted) since(before Counted) Counted {
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
