package runner

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// Record holds a run's happenings, on one clock. It is safe for concurrent use.
type Record struct {
	mu  sync.Mutex
	all []scenario.Happening
}

// Add records a happening. A late one, for example from another process, is inserted in order.
func (r *Record) Add(h scenario.Happening) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := len(r.all)
	for i > 0 && r.all[i-1].At > h.At {
		i--
	}
	r.all = slices.Insert(r.all, i, h)
}

// All returns all happenings, in order of time.
func (r *Record) All() []scenario.Happening {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}

// Kind returns the happenings of a kind.
func (r *Record) Kind(kind string) []scenario.Happening {
	return slices.DeleteFunc(r.All(), func(h scenario.Happening) bool { return h.Kind != kind })
}

// line is a happening in JSON. The first line of a run has the kind "run", the run's name, and its fabric.
type line struct {
	Scenario string       `json:"scenario"`
	World    string       `json:"world"`
	Time     float64      `json:"t_us"`
	Kind     string       `json:"kind"`
	Where    string       `json:"where"`
	Text     string       `json:"text"`
	Fabric   *fabric.Spec `json:"fabric,omitempty"`
}

// kindRun is the kind of a run's first line.
const kindRun = "run"

// Encode writes the record of a run as JSON lines.
func (r *Record) Encode(w io.Writer, run scenario.Run, world string) error {
	scenario := run.Scenario.Name
	b := bufio.NewWriter(w)
	enc := json.NewEncoder(b)
	if run.Fabric != nil {
		spec := run.Fabric.Spec()
		if err := enc.Encode(line{Scenario: scenario, World: world, Kind: kindRun, Text: run.String(), Fabric: &spec}); err != nil {
			return err
		}
	}
	for _, h := range r.All() {
		if err := enc.Encode(line{scenario, world, h.At.Micros(), h.Kind, h.Where, h.Text, nil}); err != nil {
			return err
		}
	}
	return b.Flush()
}

// Recorded is a run's record, read from a file.
type Recorded struct {
	Title    string
	Fabric   *fabric.Fabric // nil: not in the file
	Happened []scenario.Happening
}

// maxRecordLine is the maximum length of a record's line, in bytes.
const maxRecordLine = 1 << 20

// DecodeRecords reads the records of one or several runs that Encode wrote. Lines before the first run's line, such
// as all lines of an older file, are a separate run.
func DecodeRecords(r io.Reader) ([]*Recorded, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxRecordLine)
	var all []*Recorded
	for n := 1; lines.Scan(); n++ {
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 {
			continue
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if !(l.Time >= 0 && l.Time <= maxRecordMicros) {
			return nil, fmt.Errorf("line %d: t_us: %g; want 0 to %g", n, l.Time, maxRecordMicros)
		}
		if l.Kind == kindRun || len(all) == 0 {
			x := &Recorded{Title: strings.TrimSuffix(l.World+" world: "+l.Scenario, ": ")}
			if l.Kind == kindRun {
				x.Title = l.Text + ", " + l.World + " world"
			}
			if l.Fabric != nil {
				f, err := fabric.New(*l.Fabric)
				if err != nil {
					return nil, fmt.Errorf("line %d: fabric: %w", n, err)
				}
				x.Fabric = f
			}
			all = append(all, x)
		}
		if l.Kind == kindRun {
			continue
		}
		at := fabric.Time(l.Time * float64(fabric.Microsecond))
		x := all[len(all)-1]
		x.Happened = append(x.Happened, scenario.Happening{At: at, Kind: l.Kind, Where: l.Where, Text: l.Text})
	}
	return all, lines.Err()
}

// maxRecordMicros is the latest time in a record: a month.
const maxRecordMicros = 31 * 86400 * 1e6

// reactions are the kinds that occur many times in answer to one event.
func reactions() []string {
	return []string{"sync", "gnmi", "write", "push", "quench", "flip", "timeout", "retransmit", "first_hit", "done"}
}

// Text draws the record: one line for each action, and below it one for each kind of reaction.
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

// state matches the state of a port or a link in a happening's text.
var state = regexp.MustCompile(`\b(up|down)\b`)

// common returns the common text of happenings: all of it, or the states that they name.
func common(hs []scenario.Happening) string {
	texts, states := map[string]bool{}, map[string]bool{}
	for _, h := range hs {
		texts[h.Text] = true
		for _, s := range state.FindAllString(h.Text, -1) {
			states[s] = true
		}
	}
	switch {
	case len(texts) == 1:
		return hs[0].Text
	case len(states) > 0:
		return strings.Join(slices.Sorted(maps.Keys(states)), " and ")
	}
	return ""
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
		what = strings.TrimSpace(common(hs) + fmt.Sprintf(" %d times", len(hs)))
	}
	if len(where) > 4 {
		where = append(where[:3:3], fmt.Sprintf("and %d more", len(where)-3))
	}
	fmt.Fprintf(w, "  %26s  %-15s %-24s %s\n", when, hs[0].Kind, strings.Join(where, " "), what) //nolint:errcheck // the writer keeps it
}
