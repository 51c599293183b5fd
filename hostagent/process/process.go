// Package process runs a host's agent as a process: its state file, its connections to controllers, and the agent
// that labels other programs' queue pairs. The agent with a RoCEv2 endpoint in software is
// testbed/hostprocess.
package process

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent/daemon"
	"github.com/ethereal-fabric/ethereal/hostagent/neighbour"
	"github.com/ethereal-fabric/ethereal/internal/certs"
	"github.com/ethereal-fabric/ethereal/internal/durable"
)

// Config is the part of the configuration that all agents share.
type Config struct {
	Fabric      *fabric.Fabric
	Host        fabric.NodeID
	Seed        uint64
	Interfaces  []string // to the ToR
	Controllers []string // their addresses
	StateFile   string   // state for a restart; "": none
	Files       *certs.Files
	ServerName  string // name in controllers' certificates; "": their address
	Log         *slog.Logger
}

// Agent is the common part of all agents. It is not safe for concurrent use.
type Agent struct {
	Config
	kept *daemon.State // nil: no state file
	disk durable.FS
	// unkept is set if the last write to disk failed.
	unkept bool
}

// New returns an agent with the state of its file.
func New(c Config) (a *Agent, err error) {
	a = &Agent{Config: c, disk: durable.OS}
	if c.StateFile != "" {
		a.kept, err = daemon.ReadState(c.StateFile, c.Host)
	}
	return a, err
}

// Known returns the controllers' reports to the previous agent; nil: none.
func (a *Agent) Known() *statepb.Update {
	if a.kept == nil {
		return nil
	}
	return a.kept.Known()
}

// KeepLinks writes the controllers' link states. After an error the caller tries again, with these or newer states.
func (a *Agent) KeepLinks(u *statepb.Update) error {
	return a.keep(func(st *daemon.State) { st.SetLinks(u) })
}

// keep writes the state after change has changed it. A failed write has to be tried again: see unkept.
func (a *Agent) keep(change func(*daemon.State)) error {
	if a.kept == nil {
		return nil
	}
	change(a.kept)
	err := a.kept.Write(a.disk, a.StateFile)
	switch {
	case err != nil && !a.unkept:
		a.Log.Error("state is not kept; it is tried again", "err", err)
	case err == nil && a.unkept:
		a.Log.Info("state is kept again", "file", a.StateFile)
	}
	a.unkept = err != nil
	return err
}

// keepAlive is the interval at which an agent checks the connection to a silent controller.
const keepAlive = 10 * time.Second

// Dial connects to a controller.
func (a *Agent) Dial(addr string) (*grpc.ClientConn, error) {
	return grpc.NewClient(addr, grpc.WithTransportCredentials(a.Files.Client(a.ServerName)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepAlive, Timeout: keepAlive / 2}))
}

// AnswerCabling answers cabling checks on the interfaces. The agent works without it: errors are only logged.
func (a *Agent) AnswerCabling(ctx context.Context, g *errgroup.Group) {
	for _, name := range a.Interfaces {
		n, err := neighbour.Open(name)
		if err != nil {
			a.Log.Warn("cabling checks are not answered", "err", err)
			continue
		}
		g.Go(func() error {
			if err := n.Run(ctx, a.Fabric, a.Host, a.Log); ctx.Err() == nil {
				a.Log.Warn("cabling checks are no longer answered", "err", err)
			}
			return nil
		})
	}
}
