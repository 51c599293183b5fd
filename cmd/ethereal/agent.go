package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent/daemon"
	"github.com/ethereal-fabric/ethereal/hostagent/neighbour"
	"github.com/ethereal-fabric/ethereal/internal/certs"
)

// agentFlags are what all commands that run a host's agent share.
type agentFlags struct {
	fabric, host string
	interfaces   []string
	controllers  []string
	state, admin string
	tls          tlsFlags
	logLevel     string
	seed         uint64
}

// agentKeepAlive is how often an agent asks a silent controller whether it lives.
const agentKeepAlive = 10 * time.Second

func (a *agentFlags) register(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&a.fabric, "fabric", "", "read the fabric from `FILE`, as `ethereal topo` prints it")
	f.StringVar(&a.host, "host", "", "which `HOST` this is: its name in the fabric, or its rank")
	f.StringArrayVar(&a.interfaces, "interface", nil, "a network `INTERFACE` to the ToR; where programs' packets are labelled it may be given again")
	f.StringArrayVar(&a.controllers, "controller", nil, "listen to the controller at `ADDR`, HOST:PORT or unix:PATH; may be given again")
	f.StringVar(&a.state, "state-file", "", "`FILE` that keeps what a restart must not lose")
	f.StringVar(&a.admin, "admin", "", "serve health, status and metrics over HTTP at `ADDR`, HOST:PORT or unix:PATH")
	a.tls.register(c, "controllers'")
	f.StringVar(&a.logLevel, "log-level", "info", "`LEVEL`: debug, info, warn or error")
	f.Uint64Var(&a.seed, "seed", 1, "of the agent's random choices")
	for _, name := range []string{"fabric", "host"} {
		if err := c.MarkFlagRequired(name); err != nil {
			panic(err) // the flag was just defined
		}
	}
}

// agentSetup is what the flags and files say.
type agentSetup struct {
	*agentFlags
	fab   *fabric.Fabric
	id    fabric.NodeID
	log   *slog.Logger
	files *certs.Files
	kept  *daemon.State // of state; nil: nothing is kept
	// unkept is that the disk did not take it, last time.
	unkept bool
}

func (a *agentFlags) read(stderr io.Writer) (*agentSetup, error) {
	spec, err := fabric.LoadSpec(a.fabric)
	if err != nil {
		return nil, err
	}
	s := &agentSetup{agentFlags: a}
	if s.fab, err = fabric.NewSinglePlane(spec, "an agent"); err != nil {
		return nil, err
	}
	if s.id, err = hostOf(s.fab, "--host", a.host); err != nil {
		return nil, err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(a.logLevel)); err != nil {
		return nil, fmt.Errorf("--log-level: %q is none of debug, info, warn, error", a.logLevel)
	}
	s.log = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level})).With("host", s.fab.Name(s.id))
	if s.files, err = a.tls.read(); err != nil {
		return nil, err
	}
	if a.state != "" {
		if s.kept, err = daemon.ReadState(a.state, s.id); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// known returns what controllers told an agent before this one; nil: nothing.
func (s *agentSetup) known() *statepb.Update {
	if s.kept == nil {
		return nil
	}
	return s.kept.Known()
}

// keep writes the state after change has changed it. What a disk does not take is to be tried again: see unkept.
func (s *agentSetup) keep(change func(*daemon.State)) {
	if s.kept == nil {
		return
	}
	change(s.kept)
	err := s.kept.Write(s.state)
	switch {
	case err != nil && !s.unkept:
		s.log.Error("state is not kept; it is tried again", "err", err)
	case err == nil && s.unkept:
		s.log.Info("state is kept again", "file", s.state)
	}
	s.unkept = err != nil
}

// dial connects to a controller.
func (s *agentSetup) dial(addr string) (*grpc.ClientConn, error) {
	return grpc.NewClient(addr, grpc.WithTransportCredentials(s.files.Client(s.tls.name)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: agentKeepAlive, Timeout: agentKeepAlive / 2}))
}

// answerCabling answers cabling checks on the interfaces. It is no condition of the
// agent's work: an interface where it cannot is logged.
func (s *agentSetup) answerCabling(ctx context.Context, g *errgroup.Group) {
	for _, name := range s.interfaces {
		n, err := neighbour.Open(name)
		if err != nil {
			s.log.Warn("cabling checks are not answered", "err", err)
			continue
		}
		g.Go(func() error {
			if err := n.Run(ctx, s.fab, s.id, s.log); ctx.Err() == nil {
				s.log.Warn("cabling checks are no longer answered", "err", err)
			}
			return nil
		})
	}
}

// hostOf returns the host that a name or a rank means, which a flag gave.
func hostOf(f *fabric.Fabric, flag, name string) (fabric.NodeID, error) {
	if n, err := strconv.Atoi(name); err == nil && n >= 0 && n < f.Hosts() {
		return fabric.NodeID(n), nil
	}
	id, err := f.NodeByName(name)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", flag, err)
	}
	if int(id) >= f.Hosts() {
		return 0, fmt.Errorf("%s: %s is a switch; hosts are %s to %s", flag, name, f.Name(0), f.Name(fabric.NodeID(f.Hosts()-1)))
	}
	return id, nil
}
