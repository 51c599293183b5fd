package daemon

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/adminhttp"
)

// How often switches are asked why they drop packets, and how long an answer may take.
const (
	dropsEvery = 5 * time.Second
	dropsLimit = 2 * time.Second
)

// mostReasons and mostReason bound what is kept of a switch's word: reasons, and the bytes of one with its remedy.
const (
	mostReasons = 64
	mostReason  = 1 << 10
)

// Drop is a reason for which a switch drops packets, as it says itself.
type Drop struct {
	Reason  string     `json:"reason"`
	Packets uint64     `json:"packets"`        // since the switch began
	Lately  uint64     `json:"lately"`         // of them since it was asked before
	Grew    *time.Time `json:"grew,omitempty"` // when there were more last; none: not since the controller asks
	Remedy  string     `json:"remedy,omitempty"`
}

// drops is what switches say about the packets that they drop.
type drops struct {
	mu sync.Mutex
	of map[fabric.NodeID]*dropsOf
}

type dropsOf struct {
	reasons []Drop
	err     string // why the switch was not heard the last time
	asked   bool
}

// take takes what a switch says. A count that went back was begun anew, and the first is not known to grow.
func (d *drops) take(id fabric.NodeID, now time.Time, said []Drop) {
	said = slices.DeleteFunc(said, func(r Drop) bool { return len(r.Reason)+len(r.Remedy) > mostReason })
	said = slices.Clone(said[:min(len(said), mostReasons)])
	d.mu.Lock()
	defer d.mu.Unlock()
	x := d.at(id)
	before := map[string]Drop{}
	for _, r := range x.reasons {
		before[r.Reason] = r
	}
	for i := range said {
		r, b := &said[i], before[said[i].Reason]
		r.Lately, r.Grew = 0, b.Grew
		if r.Packets > b.Packets {
			r.Lately = r.Packets - b.Packets
		} else if r.Packets < b.Packets {
			r.Lately = r.Packets
		}
		if !x.asked {
			r.Lately = 0
		}
		if r.Lately > 0 {
			r.Grew = &now
		}
	}
	x.reasons, x.err, x.asked = said, "", true
}

func (d *drops) at(id fabric.NodeID) *dropsOf {
	if d.of[id] == nil {
		d.of[id] = &dropsOf{}
	}
	return d.of[id]
}

func (d *drops) fail(id fabric.NodeID, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at(id).err = err.Error()
}

// status writes what is known into the status of a switch. Reasons are never changed once they are here.
func (d *drops) status(id fabric.NodeID, s *SwitchStatus) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if x := d.of[id]; x != nil {
		s.Drops, s.DropsError = x.reasons, x.err
	}
}

// watchDrops asks the switches that have an admin address.
func (d *Daemon) watchDrops(ctx context.Context) error {
	tick := time.NewTicker(dropsEvery)
	defer tick.Stop()
	client := &adminhttp.Client{TLS: d.cfg.SwitchTLS}
	for {
		var g errgroup.Group
		g.SetLimit(readersAtOnce)
		for _, dev := range d.switches {
			if dev.target.Admin == "" {
				continue
			}
			g.Go(func() error {
				var said struct {
					Dropped []Drop `json:"dropped"`
				}
				if err := client.Get(ctx, dev.target.Admin, "/status", dropsLimit, &said); err != nil {
					d.drops.fail(dev.id, err)
				} else {
					d.drops.take(dev.id, time.Now(), said.Dropped)
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
