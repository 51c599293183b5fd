package daemon

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Handler serves an agent's state to operators over HTTP, read-only:
//
//	GET /healthz  the process lives and answers
//	GET /status   the result of status, as JSON
//	GET /metrics  the registry's metrics, in Prometheus' text form
func Handler(status func(*http.Request) (any, error), metrics prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	get := func(w http.ResponseWriter, r *http.Request, then func(any)) {
		s, err := status(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		then(s)
	}
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		get(w, r, func(any) { fmt.Fprintln(w, "ok") })
	})
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, r *http.Request) {
		get(w, r, func(s any) {
			w.Header().Set("Content-Type", "application/json")
			enc := json.NewEncoder(w)
			enc.SetIndent("", "  ")
			enc.Encode(s) //nolint:errcheck // the client is gone
		})
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	return mux
}
