//go:build cgo

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/hostagent/batch"
	"github.com/ethereal-fabric/ethereal/hostagent/daemon"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
	"github.com/ethereal-fabric/ethereal/internal/certs"
)

// config is an ethereal_config.
type config struct {
	fabric              string
	host                fabric.NodeID
	seed                uint64
	controllers         []string
	ca, cert, key, name string
	labels              labeller.Labeller // nil: none
}

// agent is the object behind a handle.
type agent struct {
	*batch.Agent
	end  context.CancelFunc
	done sync.WaitGroup

	mu     sync.Mutex
	pieces []batch.Piece
	moves  []batch.Move
	last   string
}

func open(c config) (*agent, error) {
	spec, err := fabric.LoadSpec(c.fabric)
	if err != nil {
		return nil, err
	}
	f, err := fabric.NewSinglePlane(spec, "an agent")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.fabric, err)
	}
	transport, err := c.transport()
	if err != nil {
		return nil, err
	}
	a := &agent{}
	var w *daemon.Watcher
	a.Agent, err = batch.New(batch.Config{
		Agent: hostagent.Config{Fabric: f, Host: c.host, Seed: c.seed}, Labeller: c.labels,
		Report: func(fs []hostagent.Failed) { w.Report(daemon.Suspicions(fs, time.Now().UnixNano())) },
	})
	if err != nil {
		return nil, err
	}
	w, err = daemon.NewWatcher(daemon.WatchConfig{
		Host: c.host, Links: f.Links(), Controllers: c.controllers,
		Apply: func(u *statepb.Update) {
			if err := a.Update(u); err != nil {
				a.fail(err)
			}
		},
		Dial: func(addr string) (*grpc.ClientConn, error) {
			return grpc.NewClient(addr, grpc.WithTransportCredentials(transport), grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}))
		},
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	a.end = cancel
	a.done.Go(func() { a.Run(ctx) }) //nolint:errcheck // it is ctx's
	a.done.Go(func() {
		if err := w.Run(ctx); !errors.Is(err, context.Canceled) {
			a.fail(err)
		}
	})
	return a, nil
}

// transport returns the credentials for connections to controllers.
func (c *config) transport() (credentials.TransportCredentials, error) {
	if c.ca == "" {
		if c.cert != "" || c.key != "" || c.name != "" {
			return nil, errors.New("tls_cert, tls_key and tls_server_name take tls_ca: without it there is no TLS")
		}
		return insecure.NewCredentials(), nil
	}
	files, err := certs.Read(c.ca, c.cert, c.key)
	if err != nil {
		return nil, err
	}
	return files.Client(c.name), nil
}

func (a *agent) close() {
	a.end()
	a.done.Wait()
}

func (a *agent) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last = err.Error()
}

func (a *agent) lastError() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last
}

// take fetches the work that is due. a.mu is held.
func (a *agent) take() {
	w := a.Take()
	a.pieces, a.moves = append(a.pieces, w.Send...), append(a.moves, w.Moved...)
	if w.Err != nil {
		a.last = w.Err.Error()
	}
}

// first removes and returns the first n elements.
func first[T any](from *[]T, n int) []T {
	n = min(n, len(*from))
	out := (*from)[:n:n]
	*from = (*from)[n:]
	return out
}

func (a *agent) takePieces(n int) []batch.Piece {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.take()
	return first(&a.pieces, n)
}

func (a *agent) takeMoves(n int) []batch.Move {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.take()
	return first(&a.moves, n)
}

// remembered completes a C function to a labeller: it keeps the labels.
type remembered struct {
	mu   sync.Mutex
	have map[labeller.QP]fabric.Label
}

func (r *remembered) note(a labeller.Assignment) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.have == nil {
		r.have = map[labeller.QP]fabric.Label{}
	}
	r.have[a.QP] = a.Label
}

// Clear removes the labels of queue pairs, for [labeller.Labeller].
func (r *remembered) Clear(qps ...labeller.QP) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, q := range qps {
		delete(r.have, q)
	}
	return nil
}

// Assignments returns the labels in force, for [labeller.Labeller].
func (r *remembered) Assignments() ([]labeller.Assignment, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var as []labeller.Assignment
	for q, l := range r.have {
		as = append(as, labeller.Assignment{QP: q, Label: l})
	}
	labeller.Sort(as)
	return as, nil
}

// Counters returns how many packets were labelled, by label and by reason, for [labeller.Labeller].
func (*remembered) Counters() (labeller.Counters, error) {
	return labeller.Counters{}, fmt.Errorf("%w: nothing counts", labeller.ErrUnsupported)
}

// Close does nothing: there is nothing to free.
func (*remembered) Close() error { return nil }
