package viewhttp

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/ethereal-fabric/ethereal/controller/view"
)

// Asked returns the state of a run's switch at a time, in microseconds as in [view.Run]; nil if it is unknown.
type Asked func(ctx context.Context, run int, name string, t float64) (*view.Switch, error)

// Answering makes the page show the state of its runs' switches.
func (s *Server) Answering(a Asked) *Server {
	s.asked = a
	return s
}

// serveSwitch answers switch?run=0&name=tor0&t=12.5.
func (s *Server) serveSwitch(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	run, err := strconv.Atoi(q.Get("run"))
	t, terr := strconv.ParseFloat(q.Get("t"), 64)
	if err != nil || terr != nil {
		http.Error(w, "ask for switch?run=NUMBER&name=SWITCH&t=MICROSECONDS", http.StatusBadRequest)
		return
	}
	x, err := s.asked(r.Context(), run, q.Get("name"), t)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case x == nil:
		http.NotFound(w, r)
	default:
		lasting(w)
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(x) //nolint:errcheck // the browser has left
	}
}
