package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/ethereal-fabric/ethereal/internal/listen"
	"github.com/ethereal-fabric/ethereal/p4switch/sidecar"
)

// gnmiFlags are the flags of `ethereal gnmi`.
type gnmiFlags struct {
	interfaces, portNames []string
	addr, events          string
	log                   logFlag
	tls                   tlsFlags
	refresh               time.Duration
	ethernetNames         bool
}

// newGNMICommand makes `ethereal gnmi`.
func newGNMICommand() *cobra.Command {
	var f gnmiFlags
	c := &cobra.Command{
		Use:   "gnmi -i PORT@IFACE...",
		Short: "Serve gNMI for a switch that has no gNMI server",
		Long: `Serves gNMI (openconfig-interfaces) beside a switch that has no gNMI server, such as simple_switch_grpc. It follows the
switch's network interfaces by netlink, and takes them up and down when config/enabled is set. It reports ports to the
Ethereal P4 program by port-event packets, through a veth pair whose other end is the switch's port 508. It needs
CAP_NET_ADMIN for Set and CAP_NET_RAW for port events.`,
		Example: `  ethereal gnmi -i 1@s1-eth1 -i 2@s1-eth2 --listen-gnmi 127.0.0.1:9339
  ethereal gnmi -i 1@s1-eth1 -i 2@s1-eth2 --event-interface s1-ev`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return f.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	fl := c.Flags()
	fl.StringArrayVarP(&f.interfaces, "port", "i", nil, "the switch has network interface IFACE as port PORT, `PORT@IFACE`; may be given again")
	fl.StringVar(&f.addr, "listen-gnmi", "127.0.0.1:9339", "serve gNMI at `ADDR`, HOST:PORT or unix:PATH")
	fl.StringVar(&f.events, "event-interface", "", "send port-event packets into `IFACE`; empty: send none")
	fl.DurationVar(&f.refresh, "refresh", sidecar.DefaultRefresh, "send the states of all ports to the program again every `DURATION`")
	fl.BoolVar(&f.ethernetNames, "ethernet-names", false, "name port N EthernetN in gNMI, not as its interface")
	fl.StringArrayVar(&f.portNames, "port-name", nil, "call a port NAME in gNMI, `PORT@NAME`, as in 132@1/0; may be given again")
	f.log.register(c, slog.LevelWarn)
	f.tls.registerServer(c)
	return c
}

func (f *gnmiFlags) run(ctx context.Context, stdout, stderr io.Writer) (err error) {
	cfg := sidecar.Config{EventInterface: f.events, PortEvents: programsPortEvents(), Refresh: f.refresh}
	if len(f.interfaces) == 0 {
		return errors.New("gnmi: name the switch's interfaces with -i PORT@IFACE")
	}
	var names map[uint32]string
	for _, v := range f.portNames {
		if err := setPortName(&names, v); err != nil {
			return fmt.Errorf("gnmi: --port-name: %w", err)
		}
	}
	for _, v := range f.interfaces {
		var i sidecar.Interface
		number, name, ok := strings.Cut(v, "@")
		if !ok || name == "" {
			return fmt.Errorf("gnmi: -i %q is not PORT@IFACE", v)
		}
		if err := parsePort(number, 0, &i.Number); err != nil {
			return fmt.Errorf("gnmi: -i %s: %w", v, err)
		}
		i.Device, i.Name = name, gnmiName(i.Number, name, f.ethernetNames, names)
		cfg.Interfaces = append(cfg.Interfaces, i)
	}
	if err := namesOfPorts(names, func(p uint32) bool {
		return slices.ContainsFunc(cfg.Interfaces, func(i sidecar.Interface) bool { return i.Number == p })
	}); err != nil {
		return fmt.Errorf("gnmi: %w", err)
	}
	if f.refresh <= 0 {
		return fmt.Errorf("gnmi: --refresh %v; it must be above 0", f.refresh)
	}
	cfg.Log = f.log.logger(stderr)
	files, err := f.tls.read()
	if err != nil {
		return fmt.Errorf("gnmi: %w", err)
	}
	s, err := sidecar.New(cfg)
	if err != nil {
		return failedf("%w", err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	watch := files.Watch(cfg.Log)
	listener, err := listen.At("--listen-gnmi", f.addr, files)
	if err != nil {
		return fmt.Errorf("gnmi: %w", err)
	}
	if _, err := fmt.Fprintf(stdout, "Server listening on %s\n", listener.Addr()); err != nil {
		return errors.Join(err, listener.Close())
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.Serve(ctx, listener, append(files.Authorize(), grpc.Creds(files.Server()))...) })
	g.Go(func() error { return s.Run(ctx) })
	g.Go(func() error { return watch(ctx) })
	if err := g.Wait(); !errors.Is(err, context.Canceled) {
		return failedf("%w", err)
	}
	return nil
}
