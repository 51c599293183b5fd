package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent/daemon"
	"github.com/ethereal-fabric/ethereal/hostagent/neighbour"
	"github.com/ethereal-fabric/ethereal/testbed/live/control"
	"github.com/ethereal-fabric/ethereal/testbed/live/rank"
	"github.com/ethereal-fabric/ethereal/testbed/port"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// hostagentFlags are the flags of `ethereal hostagent`.
type hostagentFlags struct {
	fabric, host     string
	iface            string
	controllers      []string
	control          string
	admin, state     string
	rate             string
	tlsCA            string
	tlsCert, tlsKey  string
	tlsName          string
	logLevel         string
	sendBuffer, seed int
}

// agentKeepAlive is how often an agent asks a silent controller whether it lives.
const agentKeepAlive = 10 * time.Second

// newHostagentCommand makes `ethereal hostagent`.
func newHostagentCommand() *cobra.Command {
	var flags hostagentFlags
	c := &cobra.Command{
		Use:   "hostagent --fabric FILE --host HOST --interface IF [--controller ADDR]...",
		Short: "Be a host: a soft RoCEv2 endpoint whose paths the agent chooses",
		Long: `Runs a host on a network interface: a RoCEv2 endpoint in software, RDMA WRITE and SEND with the invariant CRC on every
packet, and the agent that splits, labels and moves its queue pairs. It listens to controllers, believes source quenches
that can be true, and is driven by a coordinator over a UNIX socket. It needs CAP_NET_RAW.`,
		Example: `  ethereal hostagent --fabric fabric.yaml --host h0 --interface eth0 --controller 127.0.0.1:9559 --control unix:/run/h0.sock`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return flags.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	f := c.Flags()
	f.StringVar(&flags.fabric, "fabric", "", "read the fabric from `FILE`, as `ethereal topo` prints it")
	f.StringVar(&flags.host, "host", "", "which `HOST` this is: its name in the fabric, or its rank")
	f.StringVar(&flags.iface, "interface", "", "the network `INTERFACE` to the ToR")
	f.StringArrayVar(&flags.controllers, "controller", nil, "listen to the controller at `ADDR`, HOST:PORT or unix:PATH; may be given again")
	f.StringVar(&flags.control, "control", "", "be driven by a coordinator at `unix:PATH`")
	f.StringVar(&flags.admin, "admin", "", "serve health, status and metrics over HTTP at `ADDR`, HOST:PORT or unix:PATH")
	f.StringVar(&flags.state, "state-file", "", "`FILE` that keeps what a restart must not lose")
	f.StringVar(&flags.rate, "rate", "", "`RATE` of the link, such as 100Mb/s, instead of the fabric's")
	f.StringVar(&flags.tlsCA, "tls-ca", "", "`FILE` with the certificates of the authorities that controllers' certificates must come from; turns TLS on")
	f.StringVar(&flags.tlsCert, "tls-cert", "", "`FILE` with our certificate")
	f.StringVar(&flags.tlsKey, "tls-key", "", "`FILE` with its key")
	f.StringVar(&flags.tlsName, "tls-server-name", "", "`NAME` that controllers' certificates must have, instead of their address")
	f.StringVar(&flags.logLevel, "log-level", "info", "`LEVEL`: debug, info, warn or error")
	f.IntVar(&flags.sendBuffer, "send-buffer", 0, "`BYTES` that may wait in the interface's own queue; 0: 65536")
	f.IntVar(&flags.seed, "seed", 1, "of the agent's random choices")
	for _, name := range []string{"fabric", "host", "interface"} {
		if err := c.MarkFlagRequired(name); err != nil {
			panic(err) // the flag was just defined
		}
	}
	return c
}

// hostOf returns the host that a name or a rank means.
func hostOf(f *fabric.Fabric, name string) (fabric.NodeID, error) {
	if n, err := strconv.Atoi(name); err == nil && n >= 0 && n < f.Hosts() {
		return fabric.NodeID(n), nil
	}
	id, err := f.NodeByName(name)
	if err != nil {
		return 0, fmt.Errorf("--host: %w", err)
	}
	if int(id) >= f.Hosts() {
		return 0, fmt.Errorf("--host: %s is a switch; hosts are %s to %s", name, f.Name(0), f.Name(fabric.NodeID(f.Hosts()-1)))
	}
	return id, nil
}

func (f *hostagentFlags) run(ctx context.Context, _, stderr io.Writer) (err error) {
	spec, err := scenario.LoadFabric(f.fabric)
	if err != nil {
		return err
	}
	fab, err := fabric.New(spec)
	if err != nil {
		return err
	}
	cfg := rank.ProcessConfig{Fabric: fab, Controllers: f.controllers, Settings: control.Settings{Seed: uint64(f.seed)}}
	if cfg.Host, err = hostOf(fab, f.host); err != nil {
		return err
	}
	if f.rate != "" {
		if err := cfg.Rate.UnmarshalText([]byte(f.rate)); err != nil {
			return fmt.Errorf("--rate: %w", err)
		}
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
		return fmt.Errorf("--log-level: %q is none of debug, info, warn, error", f.logLevel)
	}
	cfg.Log = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level})).With("host", fab.Name(cfg.Host))
	files, err := readTLS(f.tlsCA, f.tlsCert, f.tlsKey)
	if err != nil {
		return err
	}
	cfg.Dial = func(addr string) (*grpc.ClientConn, error) {
		return grpc.NewClient(addr, grpc.WithTransportCredentials(files.client(f.tlsName)),
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: agentKeepAlive, Timeout: agentKeepAlive / 2}))
	}
	var state *daemon.State
	if f.state != "" {
		if state, err = daemon.ReadState(f.state, cfg.Host); err != nil {
			return err
		}
		cfg.Known = state.Known()
		cfg.OnUpdate = func(u *statepb.Update) {
			state.SetLinks(u)
			if err := state.Write(f.state); err != nil {
				cfg.Log.Error("state is not kept", "err", err)
			}
		}
	}
	if cfg.Listen, err = listenUnix("--control", f.control); err != nil {
		return err
	}
	admin, err := listen("--admin", f.admin, files)
	if err != nil {
		return errors.Join(err, closeListener(cfg.Listen))
	}
	if cfg.Port, err = openPort(f.iface, f.sendBuffer); err != nil {
		return errors.Join(fmt.Errorf("%w: %w", errRun, err), closeListener(cfg.Listen), closeListener(admin))
	}
	p, err := rank.NewProcess(cfg)
	if err != nil {
		return errors.Join(err, cfg.Port.Close(), closeListener(cfg.Listen), closeListener(admin))
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return p.Run(ctx) })
	answerCabling(ctx, g, []string{f.iface}, fab, cfg.Host, cfg.Log)
	if admin != nil {
		srv := &http.Server{Handler: p.Handler(), ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 1 << 14, TLSConfig: files.serverConfig()}
		serveHTTP(ctx, g, srv, admin)
	}
	if err := g.Wait(); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("%w: %w", errRun, err)
	}
	return nil
}

// answerCabling answers cabling checks on interfaces. It is no condition of the
// agent's work: an interface where it cannot is logged.
func answerCabling(ctx context.Context, g *errgroup.Group, interfaces []string, f *fabric.Fabric, host fabric.NodeID, log *slog.Logger) {
	for _, name := range interfaces {
		s, err := neighbour.Open(name)
		if err != nil {
			log.Warn("cabling checks are not answered", "err", err)
			continue
		}
		g.Go(func() error {
			if err := s.Run(ctx, f, host, log); ctx.Err() == nil {
				log.Warn("cabling checks are no longer answered", "err", err)
			}
			return nil
		})
	}
}

func openPort(name string, sendBuffer int) (port.Port, error) {
	p, err := port.OpenInterface(name, port.InterfaceOptions{SendBuffer: sendBuffer})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// listenUnix listens on unix:PATH, for programs of the same user.
func listenUnix(flag, addr string) (net.Listener, error) {
	if addr == "" {
		return nil, nil
	}
	path, ok := strings.CutPrefix(addr, "unix:")
	if !ok {
		return nil, fmt.Errorf("%s: %q is not unix:PATH", flag, addr)
	}
	path = strings.TrimPrefix(path, "//")
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
		// Left behind by a process that was killed, if nobody answers.
		if c, err := net.Dial("unix", path); err == nil {
			return nil, errors.Join(fmt.Errorf("%s: somebody serves at %s already", flag, path), c.Close())
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
	}
	lis, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", flag, err), lis.Close())
	}
	return lis, nil
}
