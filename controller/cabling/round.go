package cabling

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/ethereal-fabric/ethereal/controller/p4rt"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/lldp"
)

// Round collects the test frames of one cabling check that switches receive. It is safe for concurrent use.
type Round struct {
	f     *fabric.Fabric
	token lldp.Token
	frame int

	mu        sync.Mutex
	received  map[Arrival]bool
	astray    map[Place]int // number of unplanned arrivals recorded there
	strangers map[Stranger]bool
	missing   map[Arrival]bool // planned arrivals not seen yet
	complete  chan struct{}    // closed when none is missing
}

// MaxFrame is the maximum length of a check's frames, in bytes.
const MaxFrame = 9600

// NewRound returns a round whose frames have the token and at least frame bytes. Frames with another token are ignored.
func NewRound(f *fabric.Fabric, token lldp.Token, frame int) *Round {
	r := &Round{
		f: f, token: token, frame: min(frame, MaxFrame), received: map[Arrival]bool{}, astray: map[Place]int{}, strangers: map[Stranger]bool{}, missing: map[Arrival]bool{}, complete: make(chan struct{}),
	}
	for i := range f.Links() {
		l := f.Link(fabric.LinkID(i))
		a, b := PlaceOf(l.A), PlaceOf(l.B)
		r.missing[Arrival{b, a}] = true
		if f.Node(a.Node).Tier != fabric.Host {
			r.missing[Arrival{a, b}] = true
		}
	}
	return r
}

// In processes a packet-in: a frame that a switch received.
func (r *Round) In(node fabric.NodeID, in p4rt.PacketIn) {
	w, err := lldp.Parse(in.Frame)
	if err != nil || w.FromCheck && w.Token != r.token {
		return
	}
	at := Place{Node: node, Port: in.Port}
	if in.Port == 0 {
		at.ID = in.ID
	}
	from, known := w.Sender(r.f)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !known {
		if len(r.strangers) < maxStrangers {
			r.strangers[Stranger{at, strings.TrimSpace(w.System + " " + w.Port)}] = true
		}
		return
	}
	h := Arrival{At: at, From: PlaceOf(from)}
	switch {
	case r.received[h]:
	case r.missing[h]:
		r.received[h] = true
		if delete(r.missing, h); len(r.missing) == 0 {
			close(r.complete)
		}
	case r.astray[at] < maxAstray:
		r.received[h] = true
		r.astray[at]++
	}
}

// Limits of the recorded frames: every receiver of a frame may forge more. Planned arrivals are always recorded,
// others up to a limit per place. So a host that makes up frames at one port does not affect the others' evidence.
const (
	maxStrangers = 4096
	maxAstray    = 16 // per place; a cable has one other end
)

// Evidence returns what has been observed so far.
func (r *Round) Evidence() Evidence {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ev Evidence
	for h := range r.received {
		ev.Received = append(ev.Received, h)
	}
	for s := range r.strangers {
		ev.Strangers = append(ev.Strangers, s)
	}
	return ev
}

// Sender sends a frame through a port of a switch.
type Sender func(port fabric.PortNo, frame []byte) error

// repeatInterval is the interval at which frames are repeated: one may be lost, and a host may not listen yet.
const repeatInterval = 250 * time.Millisecond

// Conduct makes the switches send frames by all their ports, repeatedly, until all frames of a healthy fabric have
// arrived, or until wait has passed. It returns the switches that could not send, with the error. Each Sender is called
// by one goroutine at a time.
func (r *Round) Conduct(ctx context.Context, wait time.Duration, senders map[fabric.NodeID]Sender) (map[fabric.NodeID]error, error) {
	end := time.NewTimer(wait)
	defer end.Stop()
	tick := time.NewTicker(repeatInterval)
	defer tick.Stop()
	failed := map[fabric.NodeID]error{}
	for {
		var wg sync.WaitGroup
		var mu sync.Mutex
		for id, send := range senders {
			mu.Lock()
			gone := failed[id] != nil
			mu.Unlock()
			if gone {
				continue
			}
			wg.Go(func() {
				if err := r.sendAll(id, send); err != nil {
					mu.Lock()
					failed[id] = err
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		select {
		case <-r.complete:
			return failed, nil
		case <-end.C:
			return failed, nil
		case <-ctx.Done():
			return failed, ctx.Err()
		case <-tick.C:
		}
	}
}

func (r *Round) sendAll(id fabric.NodeID, send Sender) error {
	for p := 1; p <= r.f.Node(id).Ports(); p++ {
		from := fabric.End{Node: id, Port: fabric.PortNo(p)}
		frame, err := lldp.Append(nil, r.f, from, r.token)
		if err != nil {
			return err
		}
		if n := r.frame - len(frame); n > 0 {
			frame = append(frame, make([]byte, n)...)
		}
		if err := send(from.Port, frame); err != nil {
			return fmt.Errorf("cabling: port %d: %w", p, err)
		}
	}
	return nil
}
