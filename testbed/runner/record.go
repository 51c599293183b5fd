package runner

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// Record is what happened, on one clock. It is safe for concurrent use.
type Record struct {
	mu  sync.Mutex
	all []scenario.Happening
}

// Add records something that happened. What is told late, by another process for
// instance, finds its place.
func (r *Record) Add(h scenario.Happening) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := len(r.all)
	for i > 0 && r.all[i-1].At > h.At {
		i--
	}
	r.all = slices.Insert(r.all, i, h)
}

// All returns everything, in order of time.
func (r *Record) All() []scenario.Happening {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}

// Kind returns what is of a kind.
func (r *Record) Kind(kind string) []scenario.Happening {
	return slices.DeleteFunc(r.All(), func(h scenario.Happening) bool { return h.Kind != kind })
}

// line is a happening in JSON.
type line struct {
	Scenario string  `json:"scenario"`
	World    string  `json:"world"`
	Time     float64 `json:"t_us"`
	Kind     string  `json:"kind"`
	Where    string  `json:"where"`
	Text     string  `json:"text"`
}

// Encode writes the record as JSON lines.
func (r *Record) Encode(w io.Writer, scenario, world string) error {
	b := bufio.NewWriter(w)
	enc := json.NewEncoder(b)
	for _, h := range r.All() {
		if err := enc.Encode(line{scenario, world, h.At.Micros(), h.Kind, h.Where, h.Text}); err != nil {
			return err
		}
	}
	return b.Flush()
}

// reactions are the kinds that happen many times over in answer to something.
func reactions() []string {
	return []string{"sync", "gnmi", "write", "push", "quench", "flip", "timeout", "retransmit", "first_hit", "done"}
}

// Text draws the record: a line for each thing that was done, and below it one
// for each kind of what followed.
func (r *Record) Text(w io.Writer) error {
	b := bufio.NewWriter(w)
	kinds := reactions()
	var open [][]scenario.Happening // by kind, in order of appearance
	flush := func() {
		for _, hs := range open {
			writeLine(b, hs)
		}
		open = nil
	}
	for _, h := range r.All() {
		if !slices.Contains(kinds, h.Kind) {
			flush()
			writeLine(b, []scenario.Happening{h})
			continue
		}
		i := slices.IndexFunc(open, func(hs []scenario.Happening) bool { return hs[0].Kind == h.Kind })
		if i < 0 {
			open = append(open, []scenario.Happening{h})
		} else {
			open[i] = append(open[i], h)
		}
	}
	flush()
	return b.Flush()
}

// writeLine writes a line about happenings of one kind.
func writeLine(w io.Writer, hs []scenario.Happening) {
	when := hs[0].At.Rough()
	if last := hs[len(hs)-1].At; last != hs[0].At {
		when += " to " + last.Rough()
	}
	what := hs[0].Text
	var where []string
	for _, h := range hs {
		if !slices.Contains(where, h.Where) {
			where = append(where, h.Where)
		}
	}
	if len(hs) > 1 {
		what = fmt.Sprintf("%d times", len(hs))
	}
	if len(where) > 4 {
		where = append(where[:3:3], fmt.Sprintf("and %d more", len(where)-3))
	}
	fmt.Fprintf(w, "  %26s  %-15s %-24s %s\n", when, hs[0].Kind, strings.Join(where, " "), what) //nolint:errcheck // the writer keeps it
}
