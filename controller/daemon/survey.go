package daemon

import (
	"context"
	"fmt"
	"io"
	"slices"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/linkstate"
	"github.com/ethereal-fabric/ethereal/controller/p4rt"
	"github.com/ethereal-fabric/ethereal/fabric"
)

// SurveyResult is what a [Survey] read from one switch: its program, tables and port states, or the error.
type SurveyResult struct {
	Node     fabric.NodeID
	Err      error // the switch could not be read; the other fields are empty
	Pipeline bool  // it runs the controller's P4 program
	Tables   p4rt.Tables
	Ports    map[fabric.PortNo]bool // whether each port is up; nil without gNMI
}

// maxSurveyed is the number of switches that are asked at the same time.
const maxSurveyed = 32

// Survey reads port states and tables of all switches, and changes nothing. It does not have to be primary.
func Survey(ctx context.Context, cfg Config) ([]SurveyResult, error) {
	cfg = cfg.withDefaults()
	if cfg.Own == 0 {
		cfg.Own = 1 // unused: a survey does not bid
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	found := make([]SurveyResult, cfg.Core.Fabric.Switches())
	var g errgroup.Group
	g.SetLimit(maxSurveyed)
	for i := range found {
		id := fabric.NodeID(cfg.Core.Fabric.Hosts() + i)
		g.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, cfg.SurveyTimeout)
			defer cancel()
			found[i] = survey(ctx, cfg, id)
			found[i].Node = id
			return nil
		})
	}
	return found, g.Wait()
}

func survey(ctx context.Context, cfg Config, id fabric.NodeID) (f SurveyResult) {
	t := cfg.Targets[id]
	with := func(addr string, do func(grpc.ClientConnInterface) error) {
		if f.Err != nil || addr == "" {
			return
		}
		conn, err := cfg.Dial(addr)
		if err != nil {
			f.Err = fmt.Errorf("daemon: %s: %w", addr, err)
			return
		}
		defer conn.Close() //nolint:errcheck // nothing is under way
		f.Err = do(conn)
	}
	with(t.P4Runtime, func(conn grpc.ClientConnInterface) (err error) {
		pipeline := cfg.pipeline(id)
		client := pipeline.Client(conn)
		if f.Pipeline, err = pipeline.Installed(ctx, client, t.DeviceID); err != nil || !f.Pipeline {
			return err
		}
		f.Tables, err = p4rt.Fetch(ctx, client, pipeline.Schema(), t.DeviceID)
		return err
	})
	with(t.GNMI, func(conn grpc.ClientConnInterface) (err error) {
		f.Ports, err = linkstate.ReadPortStates(ctx, conn, linkstate.Subscription{Target: t.GNMITarget, Names: t.Ports})
		return err
	})
	return f
}

// CoreFromSurvey returns a core that knows the port states that a survey has read.
func CoreFromSurvey(cfg controller.Config, found []SurveyResult) (*controller.Core, error) {
	core, err := controller.New(cfg)
	if err != nil {
		return nil, err
	}
	for _, f := range found {
		for p, up := range f.Ports {
			if _, ok := cfg.Fabric.LinkAt(f.Node, p); !ok {
				continue
			}
			if err := core.PortState(0, f.Node, p, up); err != nil {
				return nil, err
			}
		}
	}
	return core, nil
}

// Plan prints the updates that a controller would write if it started now. If no switch can be read, as before a lab is
// built, it prints what it would write to empty switches. It returns the number of updates and of switches that could
// not be read.
func Plan(ctx context.Context, cfg Config, w io.Writer) (updates, unread int, err error) {
	cfg = cfg.withDefaults()
	found, err := Survey(ctx, cfg)
	if err != nil {
		return 0, 0, err
	}
	core, err := CoreFromSurvey(cfg.Core, found)
	if err != nil {
		return 0, 0, err
	}
	f := cfg.Core.Fabric
	for _, note := range cfg.Unchecked() {
		fmt.Fprintln(w, note)
	}
	none := !slices.ContainsFunc(found, func(x SurveyResult) bool { return x.Err == nil })
	for i := range f.Links() {
		if id := fabric.LinkID(i); !core.LinkUp(id) {
			fmt.Fprintf(w, "link %s is down\n", f.LinkName(id))
		}
	}
	for _, x := range found {
		name := f.Name(x.Node)
		if x.Err != nil {
			unread++
			fmt.Fprintf(w, "%s: %v\n", name, x.Err)
			if !none {
				continue
			}
			x = SurveyResult{Node: x.Node}
		}
		if pipeline := cfg.PipelineOf(x.Node); !x.Pipeline && len(pipeline.Uncompiled()) > 0 {
			fmt.Fprintf(w, "%s: push the pipeline, once it is compiled\n", name)
		} else if !x.Pipeline {
			fmt.Fprintf(w, "%s: push pipeline %#x\n", name, pipeline.Cookie())
		}
		for _, why := range x.Tables.StrayReasons {
			fmt.Fprintf(w, "%s: delete %v\n", name, why)
		}
		want, schema := core.Desired(x.Node), cfg.PipelineOf(x.Node).Schema()
		if err := schema.Fits(want); err != nil {
			fmt.Fprintf(w, "%s: %v\n", name, err)
		}
		us := schema.SupportedUpdates(controller.Diff(x.Tables.Entries, schema.ExpectedEntries(want)))
		updates += len(us) + len(x.Tables.Stray)
		for _, u := range us {
			fmt.Fprintf(w, "%s: %v\n", name, u)
		}
	}
	fmt.Fprintf(w, "%d updates of %d switches; %d could not be read", updates, len(found), unread)
	if none {
		fmt.Fprint(w, ": these are the updates of empty switches")
	}
	fmt.Fprintln(w)
	return updates, unread, nil
}
