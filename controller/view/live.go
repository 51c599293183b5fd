package view

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Tick is what is new of a live fabric.
type Tick struct {
	T      float64     `json:"t"`     // us
	Use    []byte      `json:"use"`   // by direction, of 250
	Queue  []byte      `json:"queue"` // as in [Run]; none where nobody measures queues
	Events []Event     `json:"events,omitempty"`
	State  []string    `json:"state,omitempty"` // by link: "", "down", "drained", "flapping" or "suspected"
	Facts  [][2]string `json:"facts,omitempty"` // as they are now
	Probed []Flow      `json:"probed,omitzero"` // paths that were probed recently, all of them; nil: as before
	// Largest are the pairs of hosts that send most now, all of them; nil: as before.
	Largest []Flow `json:"largest,omitzero"`
}

// Limits on who listens.
const (
	maxListeners = 16
	maxBehind    = 64 // ticks that wait for a browser before it is let go
	keepAlive    = 15 * time.Second
)

// Live hands ticks to the browsers that listen, and keeps the last for those that come. It is safe for concurrent use.
type Live struct {
	session string // random

	mu        sync.Mutex
	kept      [][]byte // oldest first
	most      int
	listeners map[chan []byte]struct{}
}

// NewLive returns a Live that keeps so many ticks.
func NewLive(keep int) *Live {
	return &Live{session: rand.Text(), most: keep, listeners: map[chan []byte]struct{}{}}
}

// Send hands a tick to all who listen. One who does not keep up is let go, and connects again.
func (l *Live) Send(t *Tick) error {
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept = append(l.kept, text); len(l.kept) > l.most {
		l.kept = append([][]byte(nil), l.kept[len(l.kept)-l.most:]...)
	}
	for c := range l.listeners {
		select {
		case c <- text:
		default:
			delete(l.listeners, c)
			close(c)
		}
	}
	return nil
}

func (l *Live) listen() (kept [][]byte, c chan []byte, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.listeners) >= maxListeners {
		return nil, nil, false
	}
	c = make(chan []byte, maxBehind)
	l.listeners[c] = struct{}{}
	return slices.Clip(l.kept), c, true
}

func (l *Live) leave(c chan []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.listeners, c)
}

// serve sends what is kept and what comes as server-sent events.
func (l *Live) serve(w http.ResponseWriter, r *http.Request) {
	kept, c, ok := l.listen()
	if !ok {
		http.Error(w, fmt.Sprintf("%d pages are open; close one", maxListeners), http.StatusServiceUnavailable)
		return
	}
	defer l.leave(c)
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	send := func(format string, args ...any) bool {
		lasting(w)
		if _, err := fmt.Fprintf(w, format, args...); err != nil {
			return false
		}
		return out.Flush() == nil
	}
	if !send("event: begin\ndata: %s\n\n", l.session) {
		return
	}
	for _, text := range kept {
		if !send("data: %s\n\n", text) {
			return
		}
	}
	beat := time.NewTicker(keepAlive)
	defer beat.Stop()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-beat.C:
			if !send(": alive\n\n") {
				return
			}
		case text, ok := <-c:
			if !ok || !send("data: %s\n\n", text) {
				return
			}
		}
	}
}
