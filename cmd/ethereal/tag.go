package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/hostagent/adopt"
	"github.com/ethereal-fabric/ethereal/hostagent/daemon"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
	"github.com/ethereal-fabric/ethereal/hostagent/tagger"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// tagFlags are the flags of `ethereal tag`.
type tagFlags struct {
	fabric, host           string
	interfaces             []string
	controllers            []string
	ipv6FlowLabel          bool
	pinDir                 string
	remove                 bool
	tlsCA, tlsCert, tlsKey string
	tlsName                string
	logLevel               string
	seed                   uint64
}

// newTagCommand makes `ethereal tag`.
func newTagCommand() *cobra.Command {
	var flags tagFlags
	c := &cobra.Command{
		Use:   "tag --fabric FILE --host HOST --interface IF... [--controller ADDR]...",
		Short: "Choose paths for the RoCEv2 traffic of other programs on this host",
		Long: `Finds the RoCEv2 queue pairs of any program that sends through the kernel, gives each a path, writes the path's label into
its packets by an eBPF program at the interfaces' egress, and moves queue pairs whose path dies: when a controller says so, or
a switch by a source quench. It needs CAP_BPF and CAP_NET_ADMIN (root). What an RNIC sends past the kernel it cannot see.`,
		Example: `  ethereal tag --fabric fabric.yaml --host h0 --interface eth0 --controller 127.0.0.1:9559`,
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return flags.run(c.Context(), c.ErrOrStderr()) },
	}
	f := c.Flags()
	f.StringVar(&flags.fabric, "fabric", "", "read the fabric from `FILE`, as `ethereal topo` prints it")
	f.StringVar(&flags.host, "host", "", "which `HOST` this is: its name in the fabric, or its rank")
	f.StringArrayVar(&flags.interfaces, "interface", nil, "a network `INTERFACE` to the ToR; may be given again")
	f.StringArrayVar(&flags.controllers, "controller", nil, "listen to the controller at `ADDR`, HOST:PORT or unix:PATH; may be given again")
	f.BoolVar(&flags.ipv6FlowLabel, "ipv6-flow-label", false, "carry labels in the flow label of IPv6, not in the source port")
	f.StringVar(&flags.pinDir, "pin-dir", "", "keep labelling when this process ends, by `DIR` on a bpf file system, and take over what is kept there")
	f.BoolVar(&flags.remove, "remove", false, "end what --pin-dir keeps, and exit")
	f.StringVar(&flags.tlsCA, "tls-ca", "", "`FILE` with the certificates of the authorities that controllers' certificates must come from; turns TLS on")
	f.StringVar(&flags.tlsCert, "tls-cert", "", "`FILE` with our certificate")
	f.StringVar(&flags.tlsKey, "tls-key", "", "`FILE` with its key")
	f.StringVar(&flags.tlsName, "tls-server-name", "", "`NAME` that controllers' certificates must have, instead of their address")
	f.StringVar(&flags.logLevel, "log-level", "info", "`LEVEL`: debug, info, warn or error")
	f.Uint64Var(&flags.seed, "seed", 1, "of the agent's random choices")
	for _, name := range []string{"fabric", "host", "interface"} {
		if err := c.MarkFlagRequired(name); err != nil {
			panic(err) // the flag was just defined
		}
	}
	return c
}

func (f *tagFlags) run(ctx context.Context, stderr io.Writer) (err error) {
	spec, err := scenario.LoadFabric(f.fabric)
	if err != nil {
		return err
	}
	fab, err := fabric.New(spec)
	if err != nil {
		return err
	}
	host, err := hostOf(fab, f.host)
	if err != nil {
		return err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
		return fmt.Errorf("--log-level: %q is none of debug, info, warn, error", f.logLevel)
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level})).With("host", fab.Name(host))
	files, err := readTLS(f.tlsCA, f.tlsCert, f.tlsKey)
	if err != nil {
		return err
	}
	tc := tagger.Config{Interfaces: f.interfaces, PinDir: f.pinDir}
	if f.ipv6FlowLabel {
		tc.IPv6 = labeller.FlowLabel
	}
	t, err := tagger.Attach(tc)
	if err != nil {
		return fmt.Errorf("%w: %w", errRun, err)
	}
	if f.remove {
		return t.Remove()
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	a, err := adopt.New(adopt.Config{Agent: hostagent.Config{Fabric: fab, Host: host, Seed: f.seed}, Labels: t})
	if err != nil {
		return fmt.Errorf("%w: %w", errRun, err)
	}
	log.Info("labelling", "interfaces", f.interfaces, "hook", t.Hook(), "taken over", len(a.Adopted()))
	quenches, err := net.ListenUDP("udp", &net.UDPAddr{Port: hostagent.QuenchPort}) // IPv4 and IPv6, or what there is
	if err != nil {
		return fmt.Errorf("%w: source quenches: %w", errRun, err)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return a.Run(ctx) })
	answerCabling(ctx, g, f.interfaces, fab, host, log)
	g.Go(func() error { return hearQuenches(ctx, quenches, a, log) })
	g.Go(func() error { <-ctx.Done(); return quenches.Close() })
	if len(f.controllers) > 0 {
		w, err := daemon.NewWatcher(daemon.WatchConfig{
			Host: host, Controllers: f.controllers, Log: log,
			Dial: func(addr string) (*grpc.ClientConn, error) {
				return grpc.NewClient(addr, grpc.WithTransportCredentials(files.client(f.tlsName)),
					grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: agentKeepAlive, Timeout: agentKeepAlive / 2}))
			},
			Apply: func(u *statepb.Update) {
				if err := a.Update(u); err != nil {
					log.Error("labels not changed", "err", err)
				}
			},
		})
		if err != nil {
			return errors.Join(err, quenches.Close())
		}
		g.Go(func() error { return w.Run(ctx) })
	}
	if err := g.Wait(); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("%w: %w", errRun, err)
	}
	return nil
}

// hearQuenches takes source quenches until the socket is closed. What they
// contain is the agent's to judge.
func hearQuenches(ctx context.Context, conn *net.UDPConn, a *adopt.Agent, log *slog.Logger) error {
	b := make([]byte, hostagent.QuenchSize+1)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(b)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("source quenches: %w", err)
		}
		verdict, err := a.Quench(b[:n], from.Addr())
		log.Debug("source quench", "from", from, "verdict", verdict, "err", err)
	}
}
