package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/ethereal-fabric/ethereal/internal/buildinfo"
	"github.com/ethereal-fabric/ethereal/internal/certs"
	"github.com/ethereal-fabric/ethereal/internal/listen"
	"github.com/ethereal-fabric/ethereal/internal/memory"
	"github.com/ethereal-fabric/ethereal/p4switch/ebpf"
	"github.com/ethereal-fabric/ethereal/p4switch/injection"
	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/packettrace"
	"github.com/ethereal-fabric/ethereal/p4switch/port"
	"github.com/ethereal-fabric/ethereal/p4switch/process"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/live"
)

// bmv2Name is the hidden option that the switch sets if it was started under BMv2's name.
const bmv2Name = "as-simple-switch"

// bmv2JSONVersion is the newest BMv2 JSON that p4switch/interp reads.
const bmv2JSONVersion = "2.23"

// switchInvocation recognises the program being started under the name of
// simple_switch_grpc, as scripts do that have it in that place, and returns
// the arguments that mean the same to ethereal.
func switchInvocation(argv []string) (args []string, ok bool) {
	if len(argv) == 0 {
		return nil, false
	}
	switch filepath.Base(argv[0]) {
	case "simple_switch_grpc", "simple_switch":
		return append([]string{"switch", "--" + bmv2Name}, argv[1:]...), true
	}
	return nil, false
}

// newSwitchCommand makes `ethereal switch`.
func newSwitchCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "switch [options] [JSON]",
		Short: "Run a P4 switch on network interfaces, with simple_switch_grpc's options",
		Long: `Runs a P4 (v1model) switch on Linux network interfaces, with P4Runtime and gNMI on one gRPC port. The options are those of
simple_switch_grpc, so scripts for BMv2 run unchanged. Options that have no effect are accepted with one warning. It needs
CAP_NET_RAW, and CAP_NET_ADMIN to set interfaces up and down by gNMI.`,
		Example: `  ethereal switch -i 1@veth1 -i 2@veth2 program.json
  ethereal switch --no-p4 --device-id 1 -i 1@s1-eth1 -i 2@s1-eth2 -- --cpu-port 255 --grpc-server-addr 127.0.0.1:50051`,
		DisableFlagParsing: true,
		Args:               cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			o, err := parseSwitchOptions(args)
			if err != nil {
				return err
			}
			out := c.OutOrStdout()
			switch {
			case o.help:
				return printSwitchHelp(c, out)
			case o.version:
				_, err := fmt.Fprintf(out, "ethereal %s\n", buildinfo.Version())
				return err
			case o.jsonVersion:
				_, err := fmt.Fprintln(out, bmv2JSONVersion)
				return err
			}
			if err := runSwitch(c.Context(), o, out, c.ErrOrStderr()); err != nil {
				return failedf("%w", err)
			}
			return nil
		},
	}
	c.AddCommand(newSwitchTestCommand())
	return c
}

func printSwitchHelp(c *cobra.Command, out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nUsage:\n  ethereal %s\n  ethereal switch test --program FILE STF...\n\nExamples:\n%s\n\nOptions:\n", c.Long, c.Use, c.Example)
	for _, o := range switchOptionTable() {
		name := "    --" + o.name
		if o.short != "" {
			name = "-" + o.short + ", --" + o.name
		}
		help := o.help
		if o.ignored != "" {
			help = "no effect: " + o.ignored
		}
		if help == "" {
			continue
		}
		fmt.Fprintf(&b, "  %-38s %s\n", strings.TrimSpace(name+" "+o.value), strings.ReplaceAll(help, "\n", "\n"+strings.Repeat(" ", 41)))
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// runSwitch runs the switch until ctx ends.
func runSwitch(ctx context.Context, o *switchOptions, stdout, stderr io.Writer) (err error) {
	for _, n := range o.notes {
		fmt.Fprintf(stderr, "ethereal switch: %s\n", n)
	}
	log, closeLog, err := o.logger(stdout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	files, err := o.files()
	if err != nil {
		return err
	}
	watch := files.Watch(log)
	var json []byte
	var info *p4config.P4Info
	if o.json != "" {
		if json, err = readBMv2(o.json); err != nil {
			return fmt.Errorf("switch: %w", err)
		}
	}
	if o.p4info != "" {
		if info, err = readP4Info(o.p4info); err != nil {
			return err
		}
	}
	d, beside, err := o.open(log, stdout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close(), beside.close(log)) }()
	if json != nil {
		if err := d.Install(json, info); err != nil {
			return fmt.Errorf("switch: %s: %w", o.json, err)
		}
	}
	if k := d.Stats().Kernel; k != nil && k.Err != "" {
		fmt.Fprintf(stderr, "ethereal switch: the kernel takes no packets: %s\n", k.Err)
	}
	listener, err := listenSwitch(ctx, o.grpcAddr)
	if err != nil {
		return err
	}
	trust := &certs.Files{} // without clients' certificates the status is for this machine, in plain HTTP
	if files.Mutual() {
		trust = files
	}
	admin, err := o.listenAdmin(trust)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	g, ctx := errgroup.WithContext(ctx)
	listen.Serve(ctx, g, listen.Server(switchHandler(d, files), trust), admin)
	g.Go(func() error { return watch(ctx) })
	if o.thriftPort != 0 {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", o.thriftPort))
		if err != nil {
			return errors.Join(fmt.Errorf("switch: --thrift-port: %w", err), listener.Close())
		}
		g.Go(func() error { return acceptAndClose(ctx, l) })
	}
	fmt.Fprintf(stdout, "Server listening on %s\n", listener.Addr())
	serving := []grpc.ServerOption{grpc.Creds(files.Server())}
	if o.grpcMutual && !o.anyRole && !o.asBMv2 {
		serving = append(serving, certs.AuthorizeCalls()...)
	}
	g.Go(func() error { return d.Serve(ctx, listener, serving...) })
	if beside.injection != nil {
		l, err := listenSwitch(ctx, o.injectAddr)
		if err != nil {
			return errors.Join(err, listener.Close())
		}
		g.Go(func() error { return beside.injection.Serve(ctx, l) })
	}
	g.Go(func() error { return d.Run(ctx) })
	g.Go(func() error { return printNewDrops(ctx, d, log, stderr) })
	g.Go(func() error { return memory.Keep(ctx) })
	if beside.tap != nil {
		g.Go(func() error { return beside.tap.Run(ctx) })
	}
	if len(beside.files) > 0 {
		timer := time.AfterFunc(time.Duration(o.useFiles)*time.Second, func() {
			for _, f := range beside.files {
				f.Start()
			}
		})
		defer timer.Stop()
	}
	if err := g.Wait(); !errors.Is(err, context.Canceled) {
		return err
	}
	s := d.Stats()
	log.Info("switch stops", "received", s.Ingress, "sent", s.Sent, "drops", s.Drops())
	return nil
}

// switchServices is the services of a switch that run beside its ports: servers, capture and injection.
type switchServices struct {
	files []*port.Files // to start
	tap   *port.Tap     // shows what the kernel forwards; nil: none

	injection *injection.Service // nil: none

	trace *os.File // nil: none
}

func (b *switchServices) close(log *slog.Logger) (err error) {
	if b.trace != nil {
		err = b.trace.Close()
	}
	if b.tap == nil {
		return err
	}
	if n := b.tap.Lost(); n > 0 {
		log.Warn("captures are incomplete", "frames", n)
	}
	return errors.Join(err, b.tap.Close())
}

// traceLimit is how long the switch waits for the reader of a pipe.
const traceLimit = time.Second

// tracePackets returns what writes packets' traces to a file; after a write that failed it writes no more.
func (b *switchServices) tracePackets(name string, log *slog.Logger) (_ func(*interp.PacketTrace), err error) {
	if b.trace, err = os.Create(name); err != nil {
		return nil, fmt.Errorf("switch: --packet-trace: %w", err)
	}
	failed := false
	return func(t *interp.PacketTrace) {
		if failed {
			return
		}
		_ = b.trace.SetWriteDeadline(time.Now().Add(traceLimit)) // only pipes have one
		if err := packettrace.WriteJSON(b.trace, t); err != nil {
			failed = true
			log.Error("packets are traced no more", "file", name, "error", err)
		}
	}, nil
}

// open opens the ports and makes the switch.
func (o *switchOptions) open(log *slog.Logger, stdout io.Writer) (d *process.Device, beside switchServices, err error) {
	cfg := process.Config{
		DeviceID: o.deviceID, CPUPort: o.cpuPort, DropPort: o.dropPort, Queues: o.queues, QueueDepth: o.queueDepth,
		QueueRate: o.queueRate, MaxPasses: o.maxPasses, MaxLoops: o.maxLoops, Realtime: o.realtime, Kernel: o.datapath == live.Kernel || o.datapath == autoDatapath, KernelOptional: o.datapath == autoDatapath,
		PartialPacketOut: o.asBMv2, NumberAsIndex: o.asBMv2,
		Unrestricted: o.restrictions == "off" || o.restrictions == autoDatapath && o.asBMv2,
		Log:          log, LogMessages: log.Enabled(context.Background(), slog.LevelInfo),
	}
	if cfg.Coalesce = time.Duration(o.coalesce) * time.Microsecond; o.coalesce == 0 {
		cfg.Coalesce = -1
	}
	if cfg.PortEvents, err = portEvents(o.portEvents); err != nil {
		return nil, switchServices{}, err
	}
	if o.datapath == live.TofinoModel {
		m, err := startModel()
		if err != nil {
			return nil, switchServices{}, err
		}
		cfg.Model = m
	}
	defer func() {
		if err == nil {
			return
		}
		for _, p := range cfg.Ports {
			err = errors.Join(err, p.Port.Close())
		}
		if cfg.Links != nil {
			err = errors.Join(err, cfg.Links.Close())
		}
		if cfg.Model != nil {
			err = errors.Join(err, cfg.Model.Close())
		}
		err = errors.Join(err, beside.close(log))
	}()
	if o.packetTrace != "" {
		if cfg.Trace, err = beside.tracePackets(o.packetTrace, log); err != nil {
			return nil, beside, err
		}
	}
	if o.injectAddr != "" {
		if err := o.inject(&cfg, &beside); err != nil {
			return nil, beside, err
		}
	} else if o.useFiles < 0 {
		links, err := port.OpenLinks()
		if err != nil {
			return nil, beside, err
		}
		cfg.Links = links
	}
	if cfg.Kernel && (o.pcap != "" || o.dumpBytes > 0) {
		if beside.tap, err = port.OpenTap(); err != nil {
			return nil, beside, err
		}
	}
	for _, i := range o.interfaces {
		pc := process.PortConfig{Number: i.port, Name: i.name}
		pc.Name = gnmiName(i.port, i.name, o.ethernetName, o.portNames)
		fmt.Fprintf(stdout, "Adding interface %s as port %d\n", i.name, i.port)
		if err := o.openPort(&pc, i, &beside, log); err != nil {
			return nil, beside, err
		}
		cfg.Ports = append(cfg.Ports, pc)
	}
	d, err = process.New(cfg)
	return d, beside, err
}

// inject makes the ports whose packets a client has: all that the CPU and drop ports leave of the first
// --max-port-count.
func (o *switchOptions) inject(cfg *process.Config, beside *switchServices) (err error) {
	var numbers []uint32
	for n := range uint32(o.maxPorts) {
		if n != o.cpuPort && n != o.dropPort {
			numbers = append(numbers, n)
		}
	}
	if beside.injection, err = injection.New(o.deviceID, numbers); err != nil {
		return err
	}
	cfg.Links = beside.injection.Links()
	for i, p := range beside.injection.Ports() {
		name := gnmiName(p.Number(), fmt.Sprint(p.Number()), o.ethernetName, o.portNames)
		cfg.Ports = append(cfg.Ports, process.PortConfig{Number: p.Number(), Name: name, Port: p, Index: i + 1})
	}
	return nil
}

// openPort opens one port, with its packet capture. After an error nothing stays open.
func (o *switchOptions) openPort(pc *process.PortConfig, i switchInterface, beside *switchServices, log *slog.Logger) error {
	if o.useFiles >= 0 {
		f, err := port.OpenFiles(".", i.name)
		if err != nil {
			return err
		}
		beside.files = append(beside.files, f)
		pc.Port = f
	} else {
		p, err := port.OpenInterface(i.name, port.InterfaceOptions{SendBuffer: o.sendBuffer, Owner: "the switch"})
		if err != nil {
			return err
		}
		pc.Port, pc.Index = p, p.Index()
	}
	var show func(bool, []byte)
	if o.dumpBytes > 0 && log.Enabled(context.Background(), slog.LevelInfo) {
		show = func(sent bool, frame []byte) {
			what := "received packet"
			if sent {
				what = "sending packet"
			}
			log.Info(what, "port", i.port, "length", len(frame), "data", hex.EncodeToString(frame[:min(len(frame), o.dumpBytes)]))
		}
	}
	if beside.tap != nil { // packets do not come here
		if err := beside.tap.Add(i.name, port.TapOptions{Hidden: ebpf.Mark, Dir: o.pcap, Show: show}); err != nil {
			return errors.Join(err, pc.Port.Close())
		}
		return nil
	}
	if o.pcap != "" {
		captured, err := port.Capture(pc.Port, o.pcap, i.name)
		if err != nil {
			return errors.Join(err, pc.Port.Close())
		}
		pc.Port = captured
	}
	if show != nil {
		pc.Port = port.Dump(pc.Port, show)
	}
	return nil
}

// logger returns the logger that --log-console, --log-file and --log-level select. Without the first two only errors
// are logged, to standard error.
func (o *switchOptions) logger(stdout io.Writer) (*slog.Logger, func() error, error) {
	level := map[string]slog.Level{
		"trace": slog.LevelDebug, "debug": slog.LevelDebug, "info": slog.LevelInfo,
		"warn": slog.LevelWarn, "error": slog.LevelError, "off": slog.LevelError + 100,
	}[o.logLevel]
	w, closeLog := stdout, func() error { return nil }
	switch {
	case o.logFile != "":
		f, err := os.OpenFile(o.logFile, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
		if err != nil {
			return nil, nil, fmt.Errorf("switch: --log-file: %w", err)
		}
		w, closeLog = f, f.Close
	case !o.logConsole:
		return slog.New(slog.DiscardHandler), closeLog, nil
	}
	return slog.New(o.logFormat.handler(w, &slog.HandlerOptions{Level: level})), closeLog, nil
}

// files reads the certificates; without TLS there are none.
func (o *switchOptions) files() (*certs.Files, error) {
	if !o.grpcTLS {
		return &certs.Files{}, nil
	}
	files, err := certs.ReadServer("grpc-server", o.grpcCA, o.grpcCert, o.grpcKey, o.grpcMutual)
	if err != nil {
		return nil, fmt.Errorf("switch: %w", err)
	}
	files.AnyRole = o.anyRole
	return files, nil
}

// listenSwitch listens on a gRPC address: HOST:PORT or unix:PATH.
func listenSwitch(ctx context.Context, addr string) (net.Listener, error) {
	const flag = "switch: --grpc-server-addr"
	if strings.HasPrefix(addr, "unix:") {
		return listen.Unix(flag, addr)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return l, nil
}

// acceptAndClose accepts connections and closes them at once, for clients that only test whether the port is open.
func acceptAndClose(ctx context.Context, l net.Listener) error {
	stop := context.AfterFunc(ctx, func() { l.Close() }) //nolint:errcheck // Accept sees it
	defer stop()
	for {
		c, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("switch: --thrift-port: %w", err)
		case err != nil: // no descriptors, for instance; there may be some later
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		default:
			c.Close() //nolint:errcheck // nothing was said
		}
	}
}

// readBMv2 reads a compiled program. P4 source, which looks alike to a beginner, is refused with how to compile it.
func readBMv2(name string) ([]byte, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	if base, ok := strings.CutSuffix(name, ".p4"); ok {
		return nil, fmt.Errorf("%s: this is P4 source; compile it with p4c: p4c-bm2-ss --std p4-16 -o %s.json %s", name, base, name)
	}
	return text, nil
}

// readP4Info reads a P4Info, in text or binary form.
func readP4Info(name string) (*p4config.P4Info, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("switch: --p4info: %w", err)
	}
	info := &p4config.P4Info{}
	textErr := prototext.Unmarshal(b, info)
	if textErr == nil {
		return info, nil
	}
	if err := proto.Unmarshal(b, info); err != nil {
		return nil, fmt.Errorf("switch: --p4info: %s is neither text nor binary P4Info: %w", name, textErr)
	}
	return info, nil
}
