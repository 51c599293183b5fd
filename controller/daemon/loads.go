package daemon

import (
	"context"
	"time"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"golang.org/x/sync/errgroup"

	"github.com/ethereal-fabric/ethereal/controller/observe"
	"github.com/ethereal-fabric/ethereal/controller/p4rt"
	"github.com/ethereal-fabric/ethereal/fabric"
)

// portCounters are the program's counters of the packets that ports send, by port number. A program may lack some.
var portCounters = []string{p4rt.CounterData, p4rt.CounterControl}

// maxReaders is the number of switches that are asked at the same time.
const maxReaders = 16

// watchLoads reads the counters of all switches at intervals.
func (d *Daemon) watchLoads(ctx context.Context) error {
	tick := time.NewTicker(d.cfg.Loads)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		var g errgroup.Group
		g.SetLimit(maxReaders)
		for _, dev := range d.switches {
			g.Go(func() error {
				limited, cancel := context.WithTimeout(ctx, observe.ReadWithin(d.cfg.Loads))
				defer cancel()
				if err := d.readLoads(limited, dev); err != nil {
					d.cfg.Log.Debug("port counters are not read", "switch", dev.name, "err", err)
				}
				return nil // the next switch may answer
			})
		}
		g.Wait() //nolint:errcheck // there are none
	}
}

// readLoads reads the counters of a switch's ports.
func (d *Daemon) readLoads(ctx context.Context, dev *device) error {
	pipeline := d.cfg.pipeline(dev.id)
	client := pipeline.Client(d.conns[dev.target.P4Runtime])
	sums, ports := map[fabric.PortNo]uint64{}, d.f.Node(dev.id).Ports()
	for _, name := range portCounters {
		id, ok := pipeline.CounterID(name)
		if !ok {
			continue
		}
		if err := p4rt.ReadCounter(ctx, client, dev.target.DeviceID, id, func(index int64, data *p4.CounterData) {
			if p, ok := dev.target.Ports.Port(uint32(index)); ok && p >= 1 && int(p) <= ports {
				sums[p] += uint64(data.GetByteCount())
			}
		}); err != nil {
			return err
		}
	}
	now := time.Now()
	for p, bytes := range sums {
		d.loads.Store(observe.SendDirection(d.f, dev.id, p), now, bytes)
	}
	return nil
}
