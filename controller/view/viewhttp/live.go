package viewhttp

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/ethereal-fabric/ethereal/controller/view"
)

// Limits on listening browsers.
const (
	maxListeners = 16
	maxBehind    = 64 // ticks that wait for a browser before it is disconnected
	keepAlive    = 15 * time.Second
)

// Live sends updates of a live fabric to all listening browsers, and keeps the last ones for new browsers. It is safe
// for concurrent use.
type Live struct {
	session string // random

	mu        sync.Mutex
	recent    [][]byte // oldest first
	maxRecent int
	listeners map[chan []byte]struct{}
}

// NewLive returns a Live that keeps the last keep ticks.
func NewLive(keep int) *Live {
	return &Live{session: rand.Text(), maxRecent: keep, listeners: map[chan []byte]struct{}{}}
}

// Send sends a tick to all listening browsers. A slow one is disconnected, and connects again.
func (l *Live) Send(t *view.Tick) error {
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.recent = append(l.recent, text); len(l.recent) > l.maxRecent {
		l.recent = append([][]byte(nil), l.recent[len(l.recent)-l.maxRecent:]...)
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

func (l *Live) subscribe() (kept [][]byte, c chan []byte, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.listeners) >= maxListeners {
		return nil, nil, false
	}
	c = make(chan []byte, maxBehind)
	l.listeners[c] = struct{}{}
	return slices.Clip(l.recent), c, true
}

func (l *Live) unsubscribe(c chan []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.listeners, c)
}

// serve sends the kept and the new ticks as server-sent events.
func (l *Live) serve(w http.ResponseWriter, r *http.Request) {
	kept, c, ok := l.subscribe()
	if !ok {
		http.Error(w, fmt.Sprintf("%d pages are open; close one", maxListeners), http.StatusServiceUnavailable)
		return
	}
	defer l.unsubscribe(c)
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	send := func(format string, args ...any) bool {
		setWriteDeadlines(w)
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
