package viewhttp

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/ethereal-fabric/ethereal/controller/view"
)

// SwitchStateFunc returns the state of a switch of a run at time t, in microseconds from the run's start; nil if
// unknown.
type SwitchStateFunc func(ctx context.Context, run int, name string, t float64) (*view.Switch, error)

// WithSwitchStates makes the page show switches' states, which a returns.
func (s *Server) WithSwitchStates(a SwitchStateFunc) *Server {
	s.switchState = a
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
	x, err := s.switchState(r.Context(), run, q.Get("name"), t)
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
