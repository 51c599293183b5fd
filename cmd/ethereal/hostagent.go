package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	agentprocess "github.com/ethereal-fabric/ethereal/hostagent/process"
	"github.com/ethereal-fabric/ethereal/internal/listen"
	"github.com/ethereal-fabric/ethereal/p4switch/port"
	"github.com/ethereal-fabric/ethereal/roce/frame"
	"github.com/ethereal-fabric/ethereal/testbed/host"
	"github.com/ethereal-fabric/ethereal/testbed/hostprocess"
)

// hostagentFlags are the flags of `ethereal host agent`.
type hostagentFlags struct {
	labellingFlags
	control    string
	rate       string
	sendBuffer int
	eventLog   string
	verbs      string
	payload    int
	alone      bool // the device serves this machine alone: others may beside it
	// program runs beside the endpoint, if not nil, and returns [programExitCode].
	program func(ctx context.Context) error
}

// newHostagentCommand makes `ethereal host agent`.
func newHostagentCommand() *cobra.Command {
	var flags hostagentFlags
	c := &cobra.Command{
		Use: "agent --fabric FILE --host HOST [--labeller soft|tagger|verbs] [--interface IF]... [--controller " +
			"ADDR]...",
		Short: "Run a host's agent, which chooses the paths of its RoCEv2 traffic",
		Long: `Runs a host's agent, which follows controllers, accepts plausible source quenches, and reports time-outs. --labeller
selects the traffic that the agent labels:

soft    its own messages, which it splits, labels and moves: a RoCEv2 endpoint in software, RDMA WRITE and SEND with the
        invariant CRC, controlled over a UNIX socket. It needs CAP_NET_RAW.
tagger  the packets of other programs, by an eBPF program; the same as ethereal host tag. It needs CAP_BPF and
        CAP_NET_ADMIN.
verbs   the queue pairs of an RNIC. Their owners connect to --listen-owners and set the labels that the agent chooses.`,
		Example: `  ethereal host agent --fabric fabric.yaml --host h0 --interface eth0 --controller 127.0.0.1:9562 --listen-socket unix:/run/h0.sock
  ethereal host agent --fabric fabric.yaml --host h0 --labeller verbs --listen-owners unix:/run/ethereal/owners.sock --controller 127.0.0.1:9562`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if flags.labeller != labellerSoft {
				return flags.labellingFlags.run(c.Context(), c.ErrOrStderr())
			}
			return flags.run(c.Context(), c.ErrOrStderr())
		},
	}
	flags.register(c)
	f := c.Flags()
	f.StringVar(&flags.labeller, "labeller", labellerSoft, "label `WHAT`: soft, tagger or verbs")
	f.StringVar(&flags.owners, "listen-owners", "",
		"with --labeller verbs: accept owners of queue pairs at `unix:PATH`")
	flags.registerSoft(c)
	return c
}

// rdma makes RDMA devices for a host's programs: add has the host's process be one, serve runs a command with one,
// until end.
var rdma interface {
	add(f *hostagentFlags, cfg *hostprocess.ProcessConfig) error
	serve(f *hostagentFlags, command []string) (end func(), err error)
} = softwareNIC{}

// newNICCommand makes `ethereal host nic`.
func newNICCommand() *cobra.Command {
	flags := hostagentFlags{labellingFlags: labellingFlags{labeller: labellerSoft}}
	c := &cobra.Command{
		Use:   "nic --fabric FILE --host HOST --interface IF --listen-verbs unix:PATH [flags] | [flags] -- COMMAND...",
		Short: "Serve a software RDMA device to this host's programs",
		Long: `Serves RDMA programs that have libethereal-verbs preloaded: perftest, UCX, MPI. A RoCEv2 endpoint in software sends their
messages on the paths that the host's agent chooses, and leaves paths that fail. It is ethereal host agent --labeller soft
with --listen-verbs.

With a COMMAND it runs COMMAND and the processes that COMMAND starts with the device, and ends when COMMAND ends. Then no
flag is needed: the device serves this machine alone, at 127.0.0.1 on the interface lo.`,
		Example: `  ethereal host nic --fabric fabric.yaml --host h0 --interface eth0 --listen-verbs unix:/run/h0.verbs --controller 127.0.0.1:9562
  LD_PRELOAD=libethereal-verbs.so ETHEREAL_NIC=unix:/run/h0.verbs ib_write_bw -x 3

  ethereal host nic -- ibv_devinfo`,
		PreRun: func(c *cobra.Command, args []string) {
			if len(args) > 0 {
				for _, name := range []string{"fabric", "host"} {
					delete(c.Flag(name).Annotations, cobra.BashCompOneRequiredFlag)
				}
			}
		},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				end, err := rdma.serve(&flags, args)
				if err != nil {
					return failedf("%w", err)
				}
				defer end()
			}
			if flags.verbs == "" {
				return errors.New("host nic: --listen-verbs is missing: say where programs find the device, such as unix:/run/h0.verbs, " +
					"or name a command to run with it, after --")
			}
			return flags.run(c.Context(), c.ErrOrStderr())
		},
	}
	flags.agentFlags.register(c)
	flags.registerSoft(c)
	return c
}

// registerSoft adds the flags of a soft endpoint.
func (f *hostagentFlags) registerSoft(c *cobra.Command) {
	set := c.Flags()
	set.StringVar(&f.verbs, "listen-verbs", "", "serve an RDMA device to programs at `unix:PATH` or unix:@NAME, an abstract socket")
	set.IntVar(&f.payload, "payload", 0, "payload of a full packet, `BYTES`; a run may ask for another; 0: 1024")
	set.StringVar(&f.control, "listen-socket", "", "with --labeller soft: accept runs and probes at `unix:PATH`")
	set.StringVar(&f.rate, "rate", "", "rate of links, `RATE`, as in 100Gb/s; with --labeller soft: used in place of the fabric file's rate")
	set.IntVar(&f.sendBuffer, "send-buffer", 0, "let `BYTES` wait in an interface's own queue; only with --labeller soft; 0: 65536")
	set.StringVar(&f.eventLog, "event-log", "", "write an event log to `FILE`, as JSON lines; with --labeller soft: calls into the host's core "+
		"and their effects")
}

// run is the soft endpoint until ctx ends.
func (f *hostagentFlags) run(ctx context.Context, stderr io.Writer) (err error) {
	if len(f.interfaces) != 1 || f.owners != "" || f.pinDir != "" || f.remove || f.ipv6FlowLabel ||
		len(f.quenchAddresses) > 0 {
		return fmt.Errorf("--labeller %s takes one --interface, and none of --listen-owners, --pin-dir, --remove, "+
			"--ipv6-flow-label, --quench-address", labellerSoft)
	}
	s, err := f.read(stderr)
	if err != nil {
		return err
	}
	cfg := hostprocess.ProcessConfig{
		Fabric: s.Fabric, Host: s.Host, Controllers: f.controllers,
		Settings: host.Settings{Seed: f.seed, ResendOnFlip: true, TailProbe: true}, Log: s.Log, Dial: s.Dial,
		Known: s.Known(), OnUpdate: s.KeepLinks,
	}
	if err := f.applyFlags(&cfg); err != nil {
		return err
	}
	watch := s.Files.Watch(s.Log)
	if cfg.Listen, err = listen.Unix("--listen-socket", f.control); err != nil {
		return err
	}
	admin, err := listen.At("--listen-admin", f.admin, s.Files)
	if err != nil {
		return errors.Join(err, listen.Close(cfg.Listen))
	}
	if cfg.Port, err = openPort(f.interfaces[0], f.processKind(s), f.sendBuffer); err != nil {
		return errors.Join(failedf("%w", err), listen.Close(cfg.Listen, admin))
	}
	closeLog, err := f.openEventLog(&cfg)
	if err != nil {
		return errors.Join(err, cfg.Port.Close(), listen.Close(cfg.Listen, admin))
	}
	p, err := hostprocess.NewProcess(cfg)
	if err != nil {
		return errors.Join(err, cfg.Port.Close(), listen.Close(cfg.Listen, admin), closeLog())
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return p.Run(ctx) })
	s.AnswerCabling(ctx, g)
	g.Go(func() error { return watch(ctx) })
	listen.Serve(ctx, g, listen.Server(p.Handler(s.Files), s.Files), admin)
	if f.program != nil {
		g.Go(func() error { return f.program(ctx) })
	}
	err = g.Wait()
	if failed := closeLog(); failed != nil {
		return failedf("--event-log: %w", failed)
	}
	if code := programExitCode(0); errors.As(err, &code) {
		return exitError(int(code), nil)
	}
	if !errors.Is(err, context.Canceled) {
		return failedf("%w", err)
	}
	return nil
}

// applyFlags applies the endpoint's flags to a configuration.
func (f *hostagentFlags) applyFlags(cfg *hostprocess.ProcessConfig) error {
	if f.rate != "" {
		if err := cfg.Rate.UnmarshalText([]byte(f.rate)); err != nil {
			return fmt.Errorf("--rate: %w", err)
		}
	}
	cfg.Settings.Payload = f.payload
	if f.verbs == "" {
		return nil
	}
	return rdma.add(f, cfg)
}

// openEventLog opens the event log, if the flags name one, and returns the function that closes it.
func (f *hostagentFlags) openEventLog(cfg *hostprocess.ProcessConfig) (end func() error, err error) {
	if f.eventLog == "" {
		return func() error { return nil }, nil
	}
	file, err := os.Create(f.eventLog)
	if err != nil {
		return nil, fmt.Errorf("--event-log: %w", err)
	}
	w := bufio.NewWriterSize(file, 1<<16)
	cfg.EventLog = w
	return func() error { return errors.Join(w.Flush(), file.Close()) }, nil
}

// processKind returns how messages call this process as the owner of its interface.
func (f *hostagentFlags) processKind(s *agentprocess.Agent) string {
	if f.alone {
		return ""
	}
	return "host " + s.Fabric.Name(s.Host)
}

func openPort(name, owner string, sendBuffer int) (port.Port, error) {
	// The endpoint reads from the wire what the kernel would refuse.
	p, err := port.OpenInterface(name, port.InterfaceOptions{SendBuffer: sendBuffer, Owner: owner,
		HoldUDP: []uint16{frame.Port, frame.QuenchPort}})
	if err != nil {
		return nil, err
	}
	return p, nil
}
