package sweep

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/runner"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// String names a case: what the run is, of which scenario, and what varied.
func (c Case) String() string {
	parts := []string{c.Run.Scenario.Name, c.Run.String()}
	for _, k := range slices.Sorted(maps.Keys(c.Variant)) {
		// The sizes are in the run's name.
		if !strings.HasSuffix(k, "].bytes") && !strings.HasPrefix(k, "collectives") {
			parts = append(parts, report.ShortKey(k)+"="+c.Variant[k])
		}
	}
	return strings.Join(parts, ", ")
}

// Runs returns the runs of cases, numbered anew.
func Runs(cases []Case) []scenario.Run {
	runs := make([]scenario.Run, len(cases))
	for i, c := range cases {
		runs[i] = c.Run
		runs[i].Index = i
	}
	return runs
}

// Results is what a file of results has.
type Results struct {
	Versions map[string]string // hash of the run: version of the program
	Damaged  error             // the first line that is no result; nil: none
	size     int64             // up to the end of the last whole line
}

// ReadResults reads a file of results. A file that is not there has
// nothing; a last line that was not written to its end counts as not there.
func ReadResults(path string) (Results, error) {
	k := Results{Versions: map[string]string{}}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	if err != nil {
		return k, fmt.Errorf("--out: %w", err)
	}
	k.size = int64(bytes.LastIndexByte(data, '\n') + 1)
	number := 0
	for line := range bytes.Lines(data[:k.size]) {
		number++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var r struct {
			Hash    string     `json:"run_sha256"`
			Version string     `json:"version"`
			End     report.End `json:"end"`
		}
		if err := json.Unmarshal(line, &r); err != nil {
			if k.Damaged == nil {
				k.Damaged = fmt.Errorf("--out: %s:%d: %w; name a file of results, or a new one", path, number, err)
			}
			continue
		}
		if r.Hash != "" && r.End != report.Interrupted {
			k.Versions[r.Hash] = r.Version
		}
	}
	return k, nil
}

// Work is what one process carries out of a sweep.
type Work struct {
	Sweep   *Sweep
	Cases   []Case // of the sweep, or of this task
	Out     string // file of results
	Version string // of the program
	Place   *report.Place
	Full    bool  // keep links, flips and timelines in the results
	Tasks   Tasks // nil: this process is the only one
}

// Tasks are the processes that carry out a sweep together.
type Tasks interface {
	// Begin makes what they share.
	Begin() error
	// Add adds to results what others have.
	Add(Results) error
	// Failed notes that a run failed.
	Failed(c Case, why string) error
	// End does what the last one has to do.
	End() error
}

// Missing reads what is there already, and returns the cases that are not, and how many are there of another version of
// the program; with again these are missing too.
func (w *Work) Missing(again bool) (todo []Case, have Results, old int, err error) {
	have, err = ReadResults(w.Out)
	switch {
	case err != nil:
	case w.Tasks != nil:
		err = w.Tasks.Add(have)
	default:
		err = have.Damaged // of tasks, Add says it
	}
	if err != nil {
		return nil, have, 0, err
	}
	for _, c := range w.Cases {
		version, ok := have.Versions[c.Hash]
		switch {
		case !ok, version != w.Version && again:
			todo = append(todo, c)
		case version != w.Version:
			old++
		}
	}
	return todo, have, old, nil
}

// Open opens the file of results for adding to it, without a last line that was not written to its end.
func (w *Work) Open(have Results) (*os.File, error) {
	file, err := os.OpenFile(w.Out, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return nil, err
	}
	if err := file.Truncate(have.size); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// CarryOut runs cases, which are the batch's runs, and adds each result to the file when its run ends. It returns how many
// it has written.
func (w *Work) CarryOut(ctx context.Context, todo []Case, b *runner.Batch, file *os.File) (written int, err error) {
	b.AsEnded = true
	b.Done = func(o *runner.Outcome) error {
		c, r := todo[o.Run.Index], o.Result
		if r == nil || o.Err != nil {
			if w.Tasks == nil {
				return nil
			}
			return w.Tasks.Failed(c, o.Why())
		}
		r.Version, r.RunSHA256, r.Sweep, r.Variant, r.RanOn = w.Version, c.Hash, w.Sweep.Name, c.Variant, w.Place
		if !w.Full {
			r.Links, r.FlipRecords, r.Timeline = nil, nil, nil
		}
		if err := report.Encode(file, r); err != nil {
			return err
		}
		written++
		return nil
	}
	_, err = b.Execute(ctx)
	return written, errors.Join(err, file.Sync())
}
