package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/hostagent/adopt"
	"github.com/ethereal-fabric/ethereal/hostagent/daemon"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
	"github.com/ethereal-fabric/ethereal/hostagent/owners"
	"github.com/ethereal-fabric/ethereal/internal/listen"
)

// Labelling is an agent process that labels other programs' queue pairs.
type Labelling struct {
	*Agent
	Labels        labeller.Discoverer
	Owners        *owners.Server // nil unless owners announce queue pairs; then also Labels
	OwnerListener net.Listener
	Admin         net.Listener // listener of the HTTP server for operators; nil: none
	// at which to receive quenches; empty: the host's addresses of the fabric file that this machine has
	QuenchAddresses []netip.Addr
}

// Run labels queue pairs until ctx ends, and then closes the labeller and the listeners.
func (l *Labelling) Run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, l.Labels.Close()) }()
	opened := false
	defer func() {
		if !opened {
			err = errors.Join(err, listen.Close(l.OwnerListener, l.Admin))
		}
	}()
	g, ctx := errgroup.WithContext(ctx)
	failed := make(chan []hostagent.Failed, 64)
	var w *daemon.Watcher // before anything is adopted
	cfg := adopt.Config{
		Agent: hostagent.Config{Fabric: l.Fabric, Host: l.Host, Seed: l.Seed}, Known: l.Known(), Log: l.Log, Labels: l.Labels,
		Report: func(fs []hostagent.Failed) {
			select {
			case failed <- append([]hostagent.Failed(nil), fs...):
			default: // a path that keeps failing is reported again
			}
		},
		Flipped: func(fs ...hostagent.Flip) {
			if w != nil {
				w.Flipped(fs...)
			}
		},
	}
	if l.kept != nil {
		cfg.Homes = l.kept.HomeLabels()
	}
	a, err := adopt.New(cfg)
	if err != nil {
		return err
	}
	words := make(chan *statepb.Update, 1)
	if w, err = l.watch(a, words); err != nil {
		return err
	}
	watch := l.Files.Watch(l.Log)
	quenches, err := l.openSockets()
	if err != nil {
		return err
	}
	opened = true
	l.Log.Info("labelling", "interfaces", l.Interfaces, "taken over", len(a.Adopted()))
	for _, conn := range quenches {
		g.Go(func() error { return receiveQuenches(ctx, conn, a, l.Log) })
		g.Go(func() error { <-ctx.Done(); return conn.Close() })
	}
	if l.Owners != nil {
		l.Owners.OnTimeout = func(q labeller.QP) { _ = a.Timeout(q) } // the agent tries again
		g.Go(func() error { return l.Owners.Run(ctx, l.OwnerListener) })
	}
	l.AnswerCabling(ctx, g)
	g.Go(func() error { return a.Run(ctx) })
	g.Go(func() error { return w.Run(ctx) })
	g.Go(func() error { return l.remember(ctx, a, words) })
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
	g.Go(func() error { return watch(ctx) })
	listen.Serve(ctx, g, listen.Server(a.Handler(l.Fabric.Name(l.Host), w.Controllers, l.Files), l.Files), l.Admin)
	if err := g.Wait(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// watch returns the watcher that follows the controllers. Updates go to the agent, and to words for the state file.
func (l *Labelling) watch(a *adopt.Agent, words chan *statepb.Update) (*daemon.Watcher, error) {
	view := l.Known()
	return daemon.NewWatcher(daemon.WatchConfig{
		Host: l.Host, Links: l.Fabric.Links(), Controllers: l.Controllers, Known: view, Log: l.Log, Dial: l.Dial,
		Apply: applyUpdates(a.Update, view, words),
	})
}

// applyUpdates returns a function that passes updates to an agent, and a snapshot that combines them to words. The
// agent needs heartbeats too: they show that a controller is connected, which confirms quenches.
func applyUpdates(agent func(*statepb.Update) error, view *statepb.Update, words chan *statepb.Update) func(*statepb.Update) {
	return func(u *statepb.Update) {
		// The agent has logged its failures, and tries again.
		_ = agent(u)
		if u.GetHeartbeat() {
			return
		}
		view = daemon.Merge(view, u)
		select { // replaces one that was not written yet
		case <-words:
		default:
		}
		words <- view
	}
}

// rememberEvery is the interval between writes of changed homes.
const rememberEvery = time.Second

// remember writes the state for a restart: the controllers' link states, and the homes of queue pairs.
func (l *Labelling) remember(ctx context.Context, a *adopt.Agent, words <-chan *statepb.Update) error {
	tick := time.NewTicker(rememberEvery)
	defer tick.Stop()
	homes := func(st *daemon.State) { st.SetHomes(a.Homes()) }
	last := ""
	for {
		select {
		case <-ctx.Done():
			_ = l.keep(homes) // keep logs the error
			return ctx.Err()
		case u := <-words:
			_ = l.keep(func(st *daemon.State) { st.SetLinks(u); homes(st) }) // a failed write is repeated because of unkept
		case <-tick.C:
			if l.kept == nil {
				continue
			}
			if now := fmt.Sprint(a.Homes()); now != last || l.unkept { // maps are printed in order
				last = now
				_ = l.keep(homes) // as above
			}
		}
	}
}
