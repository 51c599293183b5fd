package daemon

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ethereal-fabric/ethereal/controller/observe"
	"github.com/ethereal-fabric/ethereal/internal/adminhttp"
)

// The interval at which switches are asked why they drop packets, and the time allowed for an answer.
const (
	dropsInterval = 5 * time.Second
	dropsTimeout  = 2 * time.Second
)

// watchDrops polls the drop counters of the switches with an admin address.
func (d *Daemon) watchDrops(ctx context.Context) error {
	tick := time.NewTicker(dropsInterval)
	defer tick.Stop()
	for {
		client := &adminhttp.Client{}
		if d.cfg.SwitchTLS != nil {
			client.TLS = d.cfg.SwitchTLS()
		}
		var g errgroup.Group
		g.SetLimit(maxReaders)
		for _, dev := range d.switches {
			if dev.target.Admin == "" {
				continue
			}
			g.Go(func() error {
				var said struct {
					Dropped []observe.Drop `json:"dropped"`
				}
				if err := client.Get(ctx, dev.target.Admin, "/status", dropsTimeout, &said); err != nil {
					d.drops.StoreError(dev.id, err)
				} else {
					d.drops.Store(dev.id, time.Now(), said.Dropped)
				}
				return nil // the next switch may answer
			})
		}
		g.Wait() //nolint:errcheck // there are none
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
