package viewhttp

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/ethereal-fabric/ethereal/controller/view"
)

// Asked returns the state of a switch of a run at time t, in microseconds from the run's start; nil if unknown.
type Asked func(ctx context.Context, run int, name string, t float64) (*view.Switch, error)

// Answering makes the page show switches' states, which a returns.
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
		setWriteDeadlines(w)
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(x) //nolint:errcheck // the browser has left
	}
}
