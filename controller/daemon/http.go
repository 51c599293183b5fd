package daemon

import (
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/ethereal-fabric/ethereal/controller/p4rt"
)

// Handler returns what operators ask over HTTP:
//
//	GET  /healthz  the process lives
//	GET  /readyz   settled, and every switch in hand
//	GET  /status   Status as JSON
//	GET  /metrics  counts, in Prometheus' text form
//	POST /drain    name=LINK|SWITCH [undo=true] [force=true]: see Daemon.Drain
//
// Without a token nothing can be changed; with one, changes need the header
// "Authorization: Bearer TOKEN".
func (d *Daemon) Handler(token string) http.Handler {
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
			http.Error(w, "not ready", http.StatusServiceUnavailable)
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
		answer(w, s)
	})
	mux.HandleFunc("GET /metrics", d.metrics)
	mux.HandleFunc("POST /drain", func(w http.ResponseWriter, r *http.Request) {
		given := r.Header.Get("Authorization")
		if token == "" || subtle.ConstantTimeCompare([]byte(given), []byte("Bearer "+token)) != 1 {
			http.Error(w, "changes need the controller's token", http.StatusForbidden)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, 1<<12)
		links, err := d.Drain(r.Context(), r.FormValue("name"), r.FormValue("undo") == "true", r.FormValue("force") == "true")
		switch {
		case errors.Is(err, ErrSevers):
			http.Error(w, err.Error(), http.StatusConflict)
		case err != nil:
			http.Error(w, err.Error(), http.StatusBadRequest)
		default:
			answer(w, map[string][]string{"links": links})
		}
	})
	return mux
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.Encode(v) //nolint:errcheck // the client is gone
}

// metrics writes the status as text for scrapers.
func (d *Daemon) metrics(w http.ResponseWriter, r *http.Request) {
	s, err := d.Status(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	one := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	put := func(kind, name, help string, v any) {
		fmt.Fprintf(w, "# HELP ethereal_%s %s\n# TYPE ethereal_%s %s\nethereal_%s %v\n", name, help, name, kind, name, v)
	}
	put("gauge", "ready", "1 when settled and every switch is in hand.", one(s.Ready))
	put("counter", "link_changes_total", "Changes of links.", s.Epoch)
	put("counter", "changes_written_total", "Changes written to switches.", s.Changes)
	put("counter", "repair_updates_total", "Updates that read-backs asked for.", s.Repairs)
	put("counter", "refused_writes_total", "Writes that failed.", s.Refusals)
	put("gauge", "links", "Links of the fabric.", s.Links)
	put("gauge", "last_convergence_seconds", "From the first word of a link to the last acknowledged write.", s.Last.Took.Seconds())
	put("gauge", "agents", "Connected agents.", len(s.Agents))
	var behind uint64
	for _, a := range s.Agents {
		behind = max(behind, a.Behind)
	}
	put("gauge", "agent_updates_behind", "Updates that the slowest agent has not taken.", behind)
	notUp := 0
	for _, l := range s.NotUp {
		notUp += one(!l.Up)
	}
	put("gauge", "links_down", "Links out of use: down, drained or flapping.", notUp)
	for _, m := range []struct {
		name, help string
		value      func(SwitchStatus) int
	}{
		{"switch_primary", "1 where this controller is primary.", func(x SwitchStatus) int { return one(x.Primary) }},
		{"switch_standby", "1 where another controller is.", func(x SwitchStatus) int { return one(x.Phase == p4rt.Backup) }},
		{"switch_synced", "1 where the tables are as desired.", func(x SwitchStatus) int { return one(x.Synced) }},
		{"switch_dead", "1 where the neighbours say that the switch is dead.", func(x SwitchStatus) int { return one(x.Verdict == Dead) }},
		{"switch_ports_fresh", "1 where port states are up to date.", func(x SwitchStatus) int { return one(x.Ports == "fresh") }},
		{"switch_entries", "Entries when the tables were read last.", func(x SwitchStatus) int { return x.Entries }},
	} {
		fmt.Fprintf(w, "# HELP ethereal_%s %s\n# TYPE ethereal_%s gauge\n", m.name, m.help, m.name)
		for _, x := range s.Switches {
			fmt.Fprintf(w, "ethereal_%s{switch=%q} %d\n", m.name, x.Name, m.value(x))
		}
	}
}
