package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/hostagent/adopt"
	"github.com/ethereal-fabric/ethereal/hostagent/daemon"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
	"github.com/ethereal-fabric/ethereal/hostagent/owners"
	"github.com/ethereal-fabric/ethereal/hostagent/tagger"
)

// Labellers that --labeller names.
const (
	labelSoft   = "soft"   // the endpoint is our own
	labelTagger = "tagger" // other programs' packets, in the kernel
	labelVerbs  = "verbs"  // other programs' queue pairs, by themselves
)

// labellingFlags are of agents for other programs' queue pairs.
type labellingFlags struct {
	agentFlags
	labeller        string
	ipv6FlowLabel   bool
	pinDir          string
	remove          bool
	owners          string
	quenchAddresses []string
}

func (l *labellingFlags) register(c *cobra.Command) {
	l.agentFlags.register(c)
	f := c.Flags()
	f.BoolVar(&l.ipv6FlowLabel, "ipv6-flow-label", false, "carry labels in the flow label of IPv6, not in the source port")
	f.StringVar(&l.pinDir, "pin-dir", "", "keep labelling when this process ends, by `DIR` on a bpf file system, and take over what is kept there")
	f.BoolVar(&l.remove, "remove", false, "end what --pin-dir keeps, and exit")
	f.StringArrayVar(&l.quenchAddresses, "quench-address", nil, "hear source quenches at `IP`; may be given again. Without it: at the host's own addresses in the fabric, as far as this machine has them")
}

// run adopts other programs' queue pairs until ctx ends.
func (l *labellingFlags) run(ctx context.Context, stderr io.Writer) (err error) {
	s, err := l.read(stderr)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	failed := make(chan []hostagent.Failed, 64)
	var w *daemon.Watcher // before anything moves
	cfg := adopt.Config{
		Agent: hostagent.Config{Fabric: s.fab, Host: s.id, Seed: l.seed}, Known: s.known(), Log: s.log,
		Report: func(fs []hostagent.Failed) {
			select {
			case failed <- append([]hostagent.Failed(nil), fs...):
			default: // what goes on failing comes again
			}
		},
	}
	cfg.Flipped = func(fs ...hostagent.Flip) {
		if w != nil {
			w.Flipped(fs...)
		}
	}
	if s.kept != nil {
		cfg.Homes = s.kept.HomeOf()
	}
	served, err := l.open(&cfg, s.log)
	if err != nil || l.remove {
		return err
	}
	defer func() { err = errors.Join(err, cfg.Labels.Close()) }()
	a, err := adopt.New(cfg)
	if err != nil {
		return errors.Join(fmt.Errorf("%w: %w", errRun, err), served.close())
	}
	words := make(chan *statepb.Update, 1)
	view := s.known()
	w, err = daemon.NewWatcher(daemon.WatchConfig{
		Host: s.id, Links: s.fab.Links(), Controllers: l.controllers, Known: view, Log: s.log, Dial: s.dial,
		Apply: func(u *statepb.Update) {
			if u.GetHeartbeat() {
				return
			}
			// The agent has logged what it could not do, and tries again.
			_ = a.Update(u)
			view = daemon.Merge(view, u)
			select { // in place of one that was not written
			case <-words:
			default:
			}
			words <- view
		},
	})
	if err != nil {
		return errors.Join(err, served.close())
	}
	s.log.Info("labelling", "labeller", l.labeller, "interfaces", l.interfaces, "taken over", len(a.Adopted()))
	admin, err := listen("--admin", l.admin, s.files)
	if err != nil {
		return errors.Join(err, served.close())
	}
	quenches, err := l.hear(s)
	if err != nil {
		return errors.Join(fmt.Errorf("%w: %w", errRun, err), served.close(), closeListener(admin))
	}
	for _, conn := range quenches {
		g.Go(func() error { return hearQuenches(ctx, conn, a, s.log) })
		g.Go(func() error { <-ctx.Done(); return conn.Close() })
	}
	served.start(ctx, g, a)
	s.answerCabling(ctx, g)
	g.Go(func() error { return a.Run(ctx) })
	g.Go(func() error { return w.Run(ctx) })
	g.Go(func() error { return l.remember(ctx, s, a, words) })
	g.Go(func() error {
		for {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case fs := <-failed:
				w.Report(daemon.Suspicions(fs, time.Now().UnixNano()))
			}
		}
	})
	if admin != nil {
		serveHTTP(ctx, g, adminServer(a.Handler(s.fab.Name(s.id), w.Controllers), s.files), admin)
	}
	if err := g.Wait(); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("%w: %w", errRun, err)
	}
	return nil
}

// rememberEvery is how often the homes of queue pairs are written, if they changed.
const rememberEvery = time.Second

// remember keeps what a restart must not lose: what controllers say, and where
// queue pairs return to.
func (l *labellingFlags) remember(ctx context.Context, s *agentSetup, a *adopt.Agent, words <-chan *statepb.Update) error {
	tick := time.NewTicker(rememberEvery)
	defer tick.Stop()
	homes := func(st *daemon.State) { st.SetHomes(a.Homes()) }
	last := ""
	for {
		select {
		case <-ctx.Done():
			s.keep(homes)
			return ctx.Err()
		case u := <-words:
			s.keep(func(st *daemon.State) { st.SetLinks(u); homes(st) })
		case <-tick.C:
			if s.kept == nil {
				continue
			}
			if now := fmt.Sprint(a.Homes()); now != last || s.unkept { // maps are printed in order
				last = now
				s.keep(homes)
			}
		}
	}
}

// served is the socket of owners, if there is one.
type served struct {
	lis    net.Listener
	server *owners.Server
}

func (v served) close() error { return closeListener(v.lis) }

func (v served) start(ctx context.Context, g *errgroup.Group, a *adopt.Agent) {
	if v.server == nil {
		return
	}
	v.server.OnTimeout = func(q labeller.QP) { _ = a.Timeout(q) } // the agent tries again
	g.Go(func() error { return v.server.Run(ctx, v.lis) })
}

// open makes the labeller. With --remove it ends what was kept instead.
func (l *labellingFlags) open(cfg *adopt.Config, log *slog.Logger) (v served, err error) {
	switch l.labeller {
	case labelVerbs:
		if l.owners == "" || len(l.interfaces) > 0 || l.pinDir != "" || l.remove || l.ipv6FlowLabel {
			return v, fmt.Errorf("--labeller %s takes --owners, where queue pairs' owners join, and none of --interface, --pin-dir, --remove, --ipv6-flow-label", labelVerbs)
		}
		if v.lis, err = listenUnix("--owners", l.owners); err != nil {
			return v, err
		}
		v.server = owners.NewServer()
		v.server.Log = log
		cfg.Labels = v.server
		return v, nil
	case labelTagger:
		if l.owners != "" || len(l.interfaces) == 0 {
			return v, fmt.Errorf("--labeller %s takes --interface, whose packets it labels", labelTagger)
		}
		tc := tagger.Config{Interfaces: l.interfaces, PinDir: l.pinDir}
		if l.ipv6FlowLabel {
			tc.IPv6 = labeller.FlowLabel
		}
		t, err := tagger.Attach(tc)
		if err != nil {
			return v, fmt.Errorf("%w: %w", errRun, err)
		}
		if l.remove {
			return v, t.Remove()
		}
		log.Info("attached", "hook", t.Hook())
		cfg.Labels = t
		return v, nil
	}
	return v, fmt.Errorf("--labeller: %q is unknown; write %s, %s or %s", l.labeller, labelSoft, labelTagger, labelVerbs)
}

// hear opens the sockets for source quenches. What is nobody's address here is
// left out, unless it was asked for.
func (l *labellingFlags) hear(s *agentSetup) (conns []*net.UDPConn, err error) {
	addrs := []netip.Addr{s.fab.HostAddr4(s.id), s.fab.HostAddr6(s.id)}
	if len(l.quenchAddresses) > 0 {
		addrs = nil
		for _, text := range l.quenchAddresses {
			addr, err := netip.ParseAddr(text)
			if err != nil {
				return nil, fmt.Errorf("--quench-address: %w", err)
			}
			addrs = append(addrs, addr)
		}
	}
	for _, addr := range append(addrs, hostagent.NoticeAddr) {
		if addr == hostagent.NoticeAddr && len(conns) == 0 {
			break // it is not this machine that the switches speak to
		}
		conn, err := listenQuenches(addr)
		if errors.Is(err, syscall.EADDRNOTAVAIL) && len(l.quenchAddresses) == 0 || errors.Is(err, syscall.EAFNOSUPPORT) {
			continue
		}
		if err != nil {
			for _, c := range conns {
				err = errors.Join(err, c.Close())
			}
			return nil, fmt.Errorf("source quenches: %w", err)
		}
		conns = append(conns, conn)
	}
	if len(conns) == 0 {
		s.log.Warn("source quenches are not heard: this machine has none of the host's addresses; see --quench-address", "addresses", addrs)
	}
	return conns, nil
}

// listenQuenches opens a socket at an address, a multicast one too: package net would bind that to all addresses, where it is in the
// way of the others. All agents of a machine may hear the same notices.
func listenQuenches(addr netip.Addr) (*net.UDPConn, error) {
	if !addr.IsMulticast() {
		return net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, hostagent.QuenchPort)))
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	unix.CloseOnExec(fd)
	file := os.NewFile(uintptr(fd), addr.String())
	defer file.Close() //nolint:errcheck // the connection has a descriptor of its own
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return nil, fmt.Errorf("SO_REUSEADDR: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: hostagent.QuenchPort, Addr: addr.As4()}); err != nil {
		return nil, fmt.Errorf("bind %v: %w", addr, err)
	}
	conn, err := net.FilePacketConn(file)
	if err != nil {
		return nil, err
	}
	return conn.(*net.UDPConn), nil
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
