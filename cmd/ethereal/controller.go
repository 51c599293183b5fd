package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/ethereal-fabric/ethereal/controller/daemon"
	"github.com/ethereal-fabric/ethereal/controller/eventlog"
	"github.com/ethereal-fabric/ethereal/controller/p4rt"
	"github.com/ethereal-fabric/ethereal/controller/view/viewhttp"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/staterpc"
	"github.com/ethereal-fabric/ethereal/internal/certs"
	"github.com/ethereal-fabric/ethereal/internal/introspect"
	"github.com/ethereal-fabric/ethereal/internal/listen"
	"github.com/ethereal-fabric/ethereal/internal/memory"
	"github.com/ethereal-fabric/ethereal/p4src"
)

// controllerFlags are the flags of `ethereal controller`.
type controllerFlags struct {
	switches                     switchesFlags
	election                     uint64
	agents, admin                string
	tokenFile, state, events     string
	log                          logFlag
	settle, heartbeat, keepAlive time.Duration
	audit, stage                 time.Duration
	batch                        int
	dryRun                       bool
	view, viewSecret             string
	loads                        time.Duration
	peers                        []string
}

// newControllerCommand makes `ethereal controller`.
func newControllerCommand() *cobra.Command {
	var flags controllerFlags
	c := &cobra.Command{
		Use:   "controller --fabric FILE --targets FILE",
		Short: "Program the switches of a fabric and send link states to its agents",
		Long: `Programs switches over P4Runtime and gNMI: it pushes the P4 program, writes the tables that the fabric and the state of
its links need, and sends link states to host agents. Two or more controllers may run with different election ids: for
each switch the one with the highest id is primary, the others stand by. Switches also forward without a controller.`,
		Example: `  ethereal controller --fabric fabric.yaml --targets targets.yaml --election-id 1
  ethereal controller --fabric fabric.yaml --targets targets.yaml --dry-run`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return flags.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	f := c.Flags()
	flags.switches.register(c)
	flags.switches.tls.registerServer(c)
	for _, name := range []string{"fabric", "targets"} {
		if err := c.MarkFlagRequired(name); err != nil {
			panic(err) // the flag was just defined
		}
	}
	f.Uint64Var(&flags.election, "election-id", 1, "use election id `N`; of several controllers the one with the highest id is primary")
	f.StringVar(&flags.agents, "listen-agents", "127.0.0.1:9562", "serve hosts' agents at `ADDR`, HOST:PORT or unix:PATH; empty: do not")
	f.StringVar(&flags.admin, "listen-admin", defaultAdmin, "serve health, status and metrics over HTTP at `ADDR`, "+
		"HOST:PORT or unix:PATH; drains too; empty: do not")
	f.StringVar(&flags.tokenFile, "admin-token-file", "", "`FILE` with the controller's token; clients must send it to drain and to check cables")
	f.StringSliceVar(&flags.peers, "peer", nil, "share drains with the controller whose --listen-agents is "+
		"`HOST:PORT`; needs --admin-token-file, the same for both")
	f.StringVar(&flags.state, "state-file", "", "keep state for a restart in `FILE`; the state is the list of drains")
	f.StringVar(&flags.events, "event-log", "", "write an event log to `FILE`, as JSON lines; new lines are appended")
	flags.log.register(c, slog.LevelInfo)
	f.DurationVar(&flags.settle, "settle", 5*time.Second, "wait for port states for `DURATION` before the first write")
	f.DurationVar(&flags.heartbeat, "heartbeat", 5*time.Second, "expect a heartbeat of gNMI subscriptions every `DURATION`")
	f.DurationVar(&flags.keepAlive, "keep-alive", 5*time.Second, "send a keep-alive on P4Runtime sessions every `DURATION`")
	f.DurationVar(&flags.audit, "audit", 0, "read all tables back every `DURATION`, also without a sign of errors; 0: never")
	f.DurationVar(&flags.stage, "stage-timeout", time.Second, "go on without switches that have not answered a write within `DURATION`")
	f.IntVar(&flags.batch, "batch", 500, "put `N` updates into one write at most")
	f.DurationVar(&flags.loads, "loads", 0, "read the switches' counters every `DURATION`, for the load of links; 0: never (1s "+
		"with --listen-view)")
	f.StringVar(&flags.view, "listen-view", "", "serve a page at `ADDR`, HOST:PORT, under a secret path that is printed; "+
		"or at a socket passed on, fd:N. Beyond the loopback over TLS, to certificates of operators")
	f.StringVar(&flags.viewSecret, "view-secret-file", "", "keep the page's secret path in `FILE`, so that its address stays the same")
	f.BoolVar(&flags.dryRun, "dry-run", false, "only print what would be done; here: what would be written to the switches")
	return c
}

// switchesFlags are the flags that name the fabric file, the targets file and the TLS files for connections to
// switches.
type switchesFlags struct {
	fabric, targets    string
	tls                tlsFlags
	p4info, deviceConf string
}

func (s *switchesFlags) register(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&s.fabric, "fabric", "", "read the fabric from `FILE`, as `ethereal topo` prints it")
	f.StringVar(&s.targets, "targets", "", "read the switches' addresses and table settings from `FILE`; `ethereal init` writes one")
	f.StringVar(&s.p4info, "p4info", "", "use the P4Info in `FILE`, in text form; by default that of the built-in program")
	f.StringVar(&s.deviceConf, "device-config", "", "use the program in `FILE`, in the target's own form; by default the built-in BMv2 JSON")
	s.tls.registerClient(c)
}

// read returns the controller's configuration from the flags and the files that they name.
func (s *switchesFlags) read() (daemon.Config, *certs.Files, error) {
	var cfg daemon.Config
	spec, err := fabric.LoadSpec(s.fabric)
	if err != nil {
		return cfg, nil, err
	}
	if cfg.Core.Fabric, err = fabric.NewSinglePlane(spec, "the controller"); err != nil {
		return cfg, nil, err
	}
	file, err := daemon.ReadFile(s.targets)
	if err != nil {
		return cfg, nil, err
	}
	if err := file.Apply(&cfg); err != nil {
		return cfg, nil, err
	}
	if cfg.Pipeline, err = s.pipeline(); err != nil {
		return cfg, nil, err
	}
	files, err := s.tls.read()
	if err != nil {
		return cfg, nil, err
	}
	if cfg.Dial, err = s.dialer(); err != nil {
		return cfg, nil, err
	}
	cfg.SwitchTLS = func() *tls.Config { return files.ClientConfig(s.tls.name) }
	return cfg, files, nil
}

// dialer returns a function that opens a gRPC connection to a switch.
func (s *switchesFlags) dialer() (func(addr string) (*grpc.ClientConn, error), error) {
	files, err := s.tls.read()
	if err != nil {
		return nil, err
	}
	return func(addr string) (*grpc.ClientConn, error) {
		return grpc.NewClient(addr, append(p4rt.DialOptions(), grpc.WithTransportCredentials(files.Client(s.tls.name)))...)
	}, nil
}

func (s *switchesFlags) pipeline() (*p4rt.Pipeline, error) {
	info, program := p4src.V1ModelP4Info(), p4src.V1ModelJSON()
	if (s.p4info == "") != (s.deviceConf == "") {
		return nil, errors.New("--p4info and --device-config go together")
	}
	if s.p4info != "" {
		text, err := os.ReadFile(s.p4info)
		if err != nil {
			return nil, fmt.Errorf("--p4info: %w", err)
		}
		if info, err = p4rt.ParseP4Info(text); err != nil {
			return nil, fmt.Errorf("--p4info: %s: %w", s.p4info, err)
		}
		if program, err = os.ReadFile(s.deviceConf); err != nil {
			return nil, fmt.Errorf("--device-config: %w", err)
		}
	}
	return p4rt.NewPipeline(info, program)
}

func (f *controllerFlags) run(ctx context.Context, stdout, stderr io.Writer) (failed error) {
	cfg, files, err := f.switches.read()
	if err != nil {
		return err
	}
	cfg.Own, cfg.BatchSize, cfg.StateFile = f.election, f.batch, f.state
	if cfg.Loads, cfg.View = f.loads, f.view != ""; cfg.View && cfg.Loads == 0 {
		cfg.Loads = time.Second
	}
	cfg.Settle, cfg.Heartbeat, cfg.KeepAlive, cfg.Audit, cfg.StageTimeout = f.settle, f.heartbeat, f.keepAlive, f.audit, f.stage
	if f.dryRun {
		_, unread, err := daemon.Plan(ctx, cfg, stdout)
		if err == nil && unread > 0 {
			err = failedf("%d switches could not be read", unread)
		}
		return err
	}
	cfg.Log = f.log.logger(stderr)
	if cfg.Token, err = readToken(f.tokenFile); err != nil {
		return err
	}
	if cfg.Peers = f.peers; len(cfg.Peers) > 0 && cfg.Token == "" {
		return errors.New("--peer needs --admin-token-file")
	}
	cfg.DialPeer = func(addr string) (*grpc.ClientConn, error) {
		return grpc.NewClient(addr, grpc.WithTransportCredentials(files.Client("")))
	}
	if f.events != "" {
		log, end, err := eventlog.Open(f.events)
		if err != nil {
			return fmt.Errorf("--event-log: %w", err)
		}
		cfg.Events = log
		cfg.Events.Warn(cfg.Log)
		defer func() { failed = errors.Join(failed, log.Err(), end()) }()
	}
	cfg.Metrics = append(cfg.Metrics, files)
	d, err := daemon.New(cfg)
	if err != nil {
		return err
	}
	agents, err := listen.At("--listen-agents", f.agents, files)
	if err != nil {
		return err
	}
	admin, err := listen.At("--listen-admin", f.admin, files)
	if err != nil {
		return errors.Join(err, listen.Close(agents))
	}
	var page net.Listener
	secret := rand.Text()
	if f.view != "" {
		if f.viewSecret != "" {
			if secret, err = viewhttp.Secret(f.viewSecret); err != nil {
				return errors.Join(fmt.Errorf("--view-secret-file: %w", err), listen.Close(agents, admin))
			}
		}
		if page, err = viewhttp.Listen(f.view, files.Mutual()); err != nil {
			return errors.Join(fmt.Errorf("--listen-view: %w", err), listen.Close(agents, admin))
		}
	}
	if err := serveController(ctx, d, listeners{agents, admin, page, secret}, files, cfg.Log); err != nil &&
		ctx.Err() == nil {
		return failedf("%w", err)
	}
	return nil
}

func readToken(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("--admin-token-file: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if len(token) < 16 {
		return "", fmt.Errorf("--admin-token-file: %s: the token has fewer than 16 characters", path)
	}
	return token, nil
}

// maxAgentMessage bounds what an agent may send, in bytes.
const maxAgentMessage = 1 << 20

// listeners are a controller's, nil where it does not serve.
type listeners struct {
	agents, admin, page net.Listener
	secret              string // of the page's path
}

// serveController runs a controller with its listeners, nil ones left out, until
// ctx ends.
func serveController(ctx context.Context, d *daemon.Daemon, on listeners, files *certs.Files, log *slog.Logger) error {
	agents, admin := on.agents, on.admin
	watch := files.Watch(log)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return d.Run(ctx) })
	g.Go(func() error { return watch(ctx) })
	g.Go(func() error { return memory.Keep(ctx) })
	if agents != nil {
		srv := grpc.NewServer(append(files.Authorize(),
			grpc.Creds(files.Server()), grpc.MaxRecvMsgSize(maxAgentMessage), grpc.MaxConcurrentStreams(64),
			grpc.WaitForHandlers(true),
			// An agent whose machine died is noticed although nothing is sent to it.
			grpc.KeepaliveParams(keepalive.ServerParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
			grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		)...)
		staterpc.RegisterFabricStateServer(srv, d.Service())
		staterpc.RegisterControllersServer(srv, d.PeerService())
		stopping := introspect.Register(srv)
		log.Info("serving agents", "addr", agents.Addr().String(), "tls", files.Mutual())
		g.Go(func() error { return srv.Serve(agents) })
		g.Go(func() error {
			<-ctx.Done()
			stopping()
			srv.Stop()
			d.Service().Wait()
			return nil
		})
	}
	if admin != nil {
		srv := listen.Server(d.Handler(), files)
		srv.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelWarn)
		log.Info("serving status", "addr", admin.Addr().String(), "tls", srv.TLSConfig != nil)
		listen.Serve(ctx, g, srv, admin)
	}
	if on.page != nil {
		trust := files
		if listen.Loopback(on.page.Addr().String()) {
			trust = &certs.Files{} // a browser here need not have a certificate
		}
		srv := listen.Server(d.View().WithSecret(on.secret), trust)
		srv.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelWarn)
		log.Info("serving the page of the fabric", "url", viewhttp.URL(on.page.Addr(), on.secret, srv.TLSConfig != nil))
		listen.Serve(ctx, g, srv, on.page)
	}
	return g.Wait()
}
