package deployment

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"golang.org/x/sync/errgroup"

	"github.com/ethereal-fabric/ethereal/controller/daemon"
	"github.com/ethereal-fabric/ethereal/controller/p4rt"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/p4src"
)

// Fabric is a running fabric whose switches can be reached over the network.
type Fabric struct {
	*fabric.Fabric
	switches []*Switch // by NodeID - Hosts
}

// Open returns the fabric of a controller's configuration, without connecting.
func Open(cfg daemon.Config, dial Dialer) (*Fabric, error) {
	if cfg.Pipeline == nil {
		var err error
		if cfg.Pipeline, err = p4rt.NewPipeline(p4src.V1ModelP4Info(), p4src.V1ModelJSON()); err != nil {
			return nil, err
		}
	}
	x := &Fabric{Fabric: cfg.Core.Fabric}
	for i := range x.Switches() {
		id := fabric.NodeID(x.Hosts() + i)
		x.switches = append(x.switches, &Switch{
			Name: x.Name(id), ports: x.Node(id).Ports(), target: cfg.Targets[id], pipeline: cfg.PipelineOf(id), dial: dial,
		})
	}
	return x, nil
}

// Switch returns a switch.
func (x *Fabric) Switch(id fabric.NodeID) *Switch { return x.switches[int(id)-x.Hosts()] }

// Reporting yields the switches that report their ports' states over gNMI.
func (x *Fabric) Reporting() iter.Seq[fabric.NodeID] {
	return func(yield func(fabric.NodeID) bool) {
		for i, s := range x.switches {
			if s.ReportsPorts() && !yield(fabric.NodeID(x.Hosts()+i)) {
				return
			}
		}
	}
}

// SetEnabled enables or disables a link's port at the end that accepts gNMI Sets: the lower one of two.
func (x *Fabric) SetEnabled(ctx context.Context, id fabric.LinkID, enabled bool) error {
	end, err := x.settable(id)
	if err != nil {
		return err
	}
	return x.Switch(end.Node).SetEnabled(ctx, end.Port, enabled)
}

// settable returns the end of a link that accepts Sets.
func (x *Fabric) settable(id fabric.LinkID) (fabric.End, error) {
	l := x.Link(id)
	for _, end := range []fabric.End{l.A, l.B} {
		if int(end.Node) >= x.Hosts() && x.Switch(end.Node).ReportsPorts() {
			return end, nil
		}
	}
	return fabric.End{}, fmt.Errorf("no switch at %s has a gNMI server in the targets file", x.LinkName(id))
}

// canSet returns an error if no switch at a link accepts Sets.
func (x *Fabric) canSet(id fabric.LinkID) error {
	_, err := x.settable(id)
	return err
}

// NotUp returns the names of all ports that are not up, of the switches that report their ports' states.
func (x *Fabric) NotUp(ctx context.Context) ([]string, error) {
	found := make([][]string, len(x.switches))
	var g errgroup.Group
	g.SetLimit(maxParallelReads)
	for i, s := range x.switches {
		if s.ReportsPorts() {
			g.Go(func() (err error) {
				found[i], err = s.NotUp(ctx)
				return err
			})
		}
	}
	err := g.Wait()
	var names []string
	for _, of := range found {
		names = append(names, of...)
	}
	return names, err
}

// maxParallelReads is the maximum number of switches that are queried in parallel.
const maxParallelReads = 16

// Counters reads the counters of all switches, by NodeID - Hosts.
func (x *Fabric) Counters(ctx context.Context) ([]Counted, error) {
	out := make([]Counted, len(x.switches))
	errs := make([]error, len(x.switches))
	var g errgroup.Group
	g.SetLimit(maxParallelReads)
	for i, s := range x.switches {
		g.Go(func() error {
			out[i], errs[i] = s.Counters(ctx)
			return nil
		})
	}
	g.Wait() //nolint:errcheck // errs has them
	return out, errors.Join(errs...)
}
