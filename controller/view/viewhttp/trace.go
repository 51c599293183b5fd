package viewhttp

import (
	"io"
	"net/http"
	"strconv"
	"time"
)

// TraceOpener opens the trace of a run for Perfetto; nil if the run has none.
type TraceOpener func(run int) (io.ReadSeekCloser, error)

// WithTraces lets the page open its runs' traces in Perfetto: at a click, in a new window, to which the page passes
// the trace as Perfetto documents it. The page itself still loads nothing and contacts only its server.
func (s *Server) WithTraces(t TraceOpener) *Server {
	s.openTrace = t
	return s
}

// serveTrace answers trace?run=0.
func (s *Server) serveTrace(w http.ResponseWriter, r *http.Request) {
	run, err := strconv.Atoi(r.URL.Query().Get("run"))
	if err != nil {
		http.Error(w, "ask for trace?run=NUMBER", http.StatusBadRequest)
		return
	}
	file, err := s.openTrace(run)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case file == nil:
		http.NotFound(w, r)
	default:
		defer file.Close() //nolint:errcheck // it is only read
		w.Header().Set("Content-Type", "application/octet-stream")
		http.ServeContent(deadlineWriter{w}, r, "", time.Time{}, file)
	}
}
