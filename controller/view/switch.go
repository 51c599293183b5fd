package view

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
)

// Switch is the state of a switch at a time.
type Switch struct {
	Facts  [][2]string `json:"facts"`
	Ports  []Port      `json:"ports"`
	Tables []Table     `json:"tables"`
}

// Port is a port of a switch.
type Port struct {
	Name  string `json:"name"` // the switch's name of it
	To    string `json:"to"`   // the node at its other end
	State string `json:"state"`
	Sends string `json:"sends"` // its present rate; empty: unknown
}

// Table is a table of a switch: each entry's match and action, by names.
type Table struct {
	Name string      `json:"name"`
	Rows [][2]string `json:"rows"`
	Left int         `json:"left,omitempty"` // rows left out for lack of room
}

// TableRows is the largest number of a table's rows on a page.
const TableRows = 500

// TablesOf groups entries, which are in the order of their tables, into tables.
func TablesOf[E any](entries []E, named func(E) (table, key, does string)) []Table {
	var out []Table
	for _, e := range entries {
		name, key, does := named(e)
		if len(out) == 0 || out[len(out)-1].Name != name {
			out = append(out, Table{Name: name})
		}
		t := &out[len(out)-1]
		if len(t.Rows) == TableRows {
			t.Left++
			continue
		}
		t.Rows = append(t.Rows, [2]string{key, does})
	}
	return out
}

// Asked returns the state of a run's switch at a time, in microseconds as in [Run]; nil if it is unknown.
type Asked func(ctx context.Context, run int, name string, t float64) (*Switch, error)

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
