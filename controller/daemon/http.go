package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/ethereal-fabric/ethereal/controller/rollout"
	"github.com/ethereal-fabric/ethereal/fabric"
)

// Handler serves operators over HTTP:
//
//	GET  /healthz  the process lives
//	GET  /readyz   started, every switch in hand and every port reported; else what is missing
//	GET  /status   Status as JSON
//	GET  /links    names that can be drained, as a list in JSON: links between switches, and switches above ToRs
//	GET  /metrics  for Prometheus
//	POST /cabling  [wait=TIME] [frame=BYTES]: compares the cables with the fabric; cabling.Report as JSON
//	POST /drain    name=LINK|SWITCH [undo=true] [force=true]: see Daemon.Drain
//
// POST requests, which act on the fabric, need the header "Authorization: Bearer TOKEN" with [Config.Token];
// without a configured token they are refused.
func (d *Daemon) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		if _, err := d.Status(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		s, err := d.Status(r.Context())
		if err != nil || !s.Ready {
			var text strings.Builder
			text.WriteString("not ready")
			for _, x := range s.Switches {
				if len(x.NeverSeen) > 0 {
					fmt.Fprintf(&text, "\n%s: never seen over gNMI: %s", x.Name, strings.Join(x.NeverSeen, ", "))
				}
			}
			http.Error(w, text.String(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, r *http.Request) {
		s, err := d.Status(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		writeJSON(w, s)
	})
	mux.HandleFunc("GET /links", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, d.drainable()) })
	mux.Handle("GET /metrics", d.metricsHandler())
	act := func(path string, do http.HandlerFunc) {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
			if !d.authorized(r.Header.Get("Authorization"), r.RemoteAddr) {
				http.Error(w, "this needs the controller's token (--admin-token-file)", http.StatusForbidden)
				return
			}
			r.Body = http.MaxBytesReader(w, r.Body, 1<<12)
			do(w, r)
		})
	}
	act("/cabling", d.serveCabling)
	act("/drain", func(w http.ResponseWriter, r *http.Request) {
		links, err := d.Drain(r.Context(), r.FormValue("name"), r.FormValue("undo") == "true", r.FormValue("force") == "true")
		switch {
		case errors.Is(err, rollout.ErrSevers):
			http.Error(w, err.Error(), http.StatusConflict)
		case errors.Is(err, ErrUnacknowledged):
			http.Error(w, err.Error(), http.StatusGatewayTimeout)
		case err != nil:
			http.Error(w, err.Error(), http.StatusBadRequest)
		default:
			writeJSON(w, map[string][]string{"links": links})
		}
	})
	return mux
}

// drainable returns the names that a drain accepts, which never change.
func (d *Daemon) drainable() []string {
	var names []string
	for i := d.f.Hosts(); i < d.f.Links(); i++ {
		names = append(names, d.f.LinkName(fabric.LinkID(i)))
	}
	for i := d.f.Hosts() + d.f.ToRs(); i < d.f.Nodes(); i++ {
		names = append(names, d.f.Name(fabric.NodeID(i)))
	}
	return names
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.Encode(v) //nolint:errcheck // the client is gone
}
