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

// String names a case: its run, scenario, and varied values.
func (c Case) String() string {
	parts := []string{c.Run.Scenario.Name, c.Run.String()}
	for _, k := range slices.Sorted(maps.Keys(c.Variant)) {
		// The run's name contains the sizes.
		if !strings.HasSuffix(k, "].bytes") && !strings.HasPrefix(k, "collectives") {
			parts = append(parts, report.ShortKey(k)+"="+c.Variant[k])
		}
	}
	return strings.Join(parts, ", ")
}

// Runs returns the runs of cases, renumbered.
func Runs(cases []Case) []scenario.Run {
	runs := make([]scenario.Run, len(cases))
	for i, c := range cases {
		runs[i] = c.Run
		runs[i].Index = i
	}
	return runs
}

// Results is the content of a results file.
type Results struct {
	Versions map[string]string // hash of the run: version of the program
	Damaged  error             // the error of the first line that is no result; nil: none
	size     int64             // up to the end of the last complete line
}

// ReadResults reads a results file. A missing file is empty; an incomplete last line is ignored.
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

// Work is the part of a sweep that one process carries out.
type Work struct {
	Sweep   *Sweep
	Cases   []Case // cases of the sweep, or of this task
	Out     string // results file
	Version string // version of the program
	Place   *report.Machine
	Full    bool  // keep links, flips and timelines in the results
	Tasks   Tasks // nil: this process is the only one
}

// Tasks is the interface to the other processes that execute parts of the same sweep.
type Tasks interface {
	// Begin creates their shared state.
	Begin() error
	// Add adds the other tasks' results.
	Add(Results) error
	// Failed records that a run failed.
	Failed(c Case, why string) error
	// End does the work of the last task.
	End() error
}

// Missing reads the existing results. It returns the cases without result, and the number of results from another
// version of the program; with again the latter count as missing too.
func (w *Work) Missing(again bool) (todo []Case, have Results, old int, err error) {
	have, err = ReadResults(w.Out)
	switch {
	case err != nil:
	case w.Tasks != nil:
		err = w.Tasks.Add(have)
	default:
		err = have.Damaged // with tasks, Add reports it
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

// ErrBusy is wrapped if another process writes the results file.
var ErrBusy = errors.New("another ethereal bench writes to this file; wait for it, or name another")

// Open opens the results file for appending. The file is this process's until it is closed: with Tasks, the tasks'
// shared folder says which process has which file.
func (w *Work) Open() (*os.File, error) {
	if info, err := os.Stat(w.Out); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file, and results are read again", w.Out)
	}
	file, err := os.OpenFile(w.Out, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil || w.Tasks != nil {
		return file, err
	}
	if free, err := tryLock(file); !free {
		return nil, errors.Join(fmt.Errorf("%s: %w", w.Out, err), file.Close())
	}
	return file, nil
}

// Continue removes an incomplete last line, of a process that was killed.
func (r Results) Continue(file *os.File) error { return file.Truncate(r.size) }

// CarryOut runs cases, which are the batch's runs, and appends each result to the file when its run ends. It
// returns the number of results written.
func (w *Work) CarryOut(ctx context.Context, todo []Case, b *runner.Batch, file *os.File) (written int, err error) {
	b.AsEnded = true
	b.Done = func(o *runner.Outcome) error {
		c, r := todo[o.Run.Index], o.Result
		if r == nil || o.Err != nil {
			if w.Tasks == nil {
				return nil
			}
			return w.Tasks.Failed(c, o.ErrorText())
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
