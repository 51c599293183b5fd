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

// Config is the configuration that all kinds of agent processes share.
type Config struct {
	Fabric      *fabric.Fabric
	Host        fabric.NodeID
	Seed        uint64
	Interfaces  []string // names of the network interfaces that lead to the ToR
	Controllers []string // controllers' addresses
	StateFile   string   // file with the state to keep over a restart; "": none
	Files       *certs.Files
	ServerName  string // name in controllers' certificates; "": the host of their address
	Log         *slog.Logger
}

// Agent is the common part of all kinds of agent processes: fabric, state file, credentials. It is not safe for
// concurrent use.
type Agent struct {
	Config
	kept *daemon.State // nil: no state file
	disk durable.FS
	// unkept is set if the last write to disk failed.
	unkept bool
}

// New returns an agent with the state read from its file.
func New(c Config) (a *Agent, err error) {
	a = &Agent{Config: c, disk: durable.OS}
	if c.StateFile != "" {
		a.kept, err = daemon.ReadState(c.StateFile, c.Host)
	}
	return a, err
}

// Known returns the link states that controllers reported before the restart, as a snapshot; nil: none.
func (a *Agent) Known() *statepb.Update {
	if a.kept == nil {
		return nil
	}
	return a.kept.Known()
}

// KeepLinks writes link states from a controller to the state file. After an error, call it again with these or newer
// ones.
func (a *Agent) KeepLinks(u *statepb.Update) error {
	return a.keep(func(st *daemon.State) { st.SetLinks(u) })
}

// keep updates the state and writes it to the state file. A failed write has to be repeated: see unkept.
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

// Dial returns a gRPC connection to a controller.
func (a *Agent) Dial(addr string) (*grpc.ClientConn, error) {
	return grpc.NewClient(addr, grpc.WithTransportCredentials(a.Files.Client(a.ServerName)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepAlive, Timeout: keepAlive / 2}))
}

// AnswerCabling starts, in g, to answer controllers' cabling checks (LLDP) on the interfaces. The agent works without
// it: errors are only logged.
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
