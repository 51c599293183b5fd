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
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// Record is the events that a run reported, in order of time. It is safe for concurrent use.
type Record struct {
	mu  sync.Mutex
	all []report.Event
}

// Add records an event. A late one, for example from another process, is inserted in order.
func (r *Record) Add(e report.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := len(r.all)
	for i > 0 && r.all[i-1].Time > e.Time {
		i--
	}
	r.all = slices.Insert(r.all, i, e)
}

// All returns all events, in order of time.
func (r *Record) All() []report.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}

// Kind returns the events of a kind.
func (r *Record) Kind(kind report.Kind) []report.Event {
	return slices.DeleteFunc(r.All(), func(e report.Event) bool { return e.Kind != kind })
}

// eventLine is an event in JSON. The first line of a run has the kind "run", the run's name, and its fabric.
type eventLine struct {
	Scenario string `json:"scenario"`
	World    string `json:"world"`
	report.Event
	Fabric *fabric.Spec `json:"fabric,omitempty"`
}

// kindRun is the kind of a run's first line.
const kindRun report.Kind = "run"

// Encode writes the record of a run as JSON lines.
func (r *Record) Encode(w io.Writer, run scenario.Run, world string) error {
	scenario := run.Scenario.Name
	b := bufio.NewWriter(w)
	enc := json.NewEncoder(b)
	if run.Fabric != nil {
		spec := run.Fabric.Spec()
		if err := enc.Encode(eventLine{scenario, world, report.Event{Kind: kindRun, Text: run.String()}, &spec}); err != nil {
			return err
		}
	}
	for _, e := range r.All() {
		if err := enc.Encode(eventLine{scenario, world, e, nil}); err != nil {
			return err
		}
	}
	return b.Flush()
}

// Recorded is a run's record, read from a file.
type Recorded struct {
	Title    string
	Fabric   *fabric.Fabric // nil: not in the file
	Happened []report.Event
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
		var l eventLine
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
		x := all[len(all)-1]
		x.Happened = append(x.Happened, l.Event)
	}
	return all, lines.Err()
}

// maxRecordMicros is the latest time in a record: a month.
const maxRecordMicros = 31 * 86400 * 1e6

// reactionKinds are the kinds that occur many times in answer to one event.
func reactionKinds() []report.Kind {
	return []report.Kind{"sync", "gnmi", "write", "push", "quench", "flip", "timeout", "retransmit", "first_hit", "done"}
}

// Text writes the record as text: one line for each action, and below it one for each kind of reaction.
func (r *Record) Text(w io.Writer) error {
	b := bufio.NewWriter(w)
	kinds := reactionKinds()
	var open [][]report.Event // by kind, in order of appearance
	flush := func() {
		for _, es := range open {
			writeLine(b, es)
		}
		open = nil
	}
	for _, e := range r.All() {
		if !slices.Contains(kinds, e.Kind) {
			flush()
			writeLine(b, []report.Event{e})
			continue
		}
		i := slices.IndexFunc(open, func(es []report.Event) bool { return es[0].Kind == e.Kind })
		if i < 0 {
			open = append(open, []report.Event{e})
		} else {
			open[i] = append(open[i], e)
		}
	}
	flush()
	return b.Flush()
}

// portStateWord matches the state of a port or a link in an event's text.
var portStateWord = regexp.MustCompile(`\b(up|down)\b`)

// commonText returns the common text of events: all of it, or the states that they name.
func commonText(es []report.Event) string {
	texts, states := map[string]bool{}, map[string]bool{}
	for _, e := range es {
		texts[e.Text] = true
		for _, s := range portStateWord.FindAllString(e.Text, -1) {
			states[s] = true
		}
	}
	switch {
	case len(texts) == 1:
		return es[0].Text
	case len(states) > 0:
		return strings.Join(slices.Sorted(maps.Keys(states)), " and ")
	}
	return ""
}

// writeLine writes a line about events of one kind.
func writeLine(w io.Writer, es []report.Event) {
	when := es[0].At().Rough()
	if last := es[len(es)-1]; last.Time != es[0].Time {
		when += " to " + last.At().Rough()
	}
	what := es[0].Text
	var where []string
	for _, e := range es {
		if !slices.Contains(where, e.Where) {
			where = append(where, e.Where)
		}
	}
	if len(es) > 1 {
		what = strings.TrimSpace(commonText(es) + fmt.Sprintf(" %d times", len(es)))
	}
	if len(where) > 4 {
		where = append(where[:3:3], fmt.Sprintf("and %d more", len(where)-3))
	}
	fmt.Fprintf(w, "  %26s  %-15s %-24s %s\n", when, es[0].Kind, strings.Join(where, " "), what) //nolint:errcheck // the writer keeps it
}
