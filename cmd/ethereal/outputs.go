package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ethereal-fabric/ethereal/internal/durable"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/runner"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// outputFile is an output file that a flag names.
type outputFile struct{ flag, path string }

// checkOutputs refuses, before anything runs or is written, files that would
// overwrite each other or the scenario, and files of runs that cannot be made.
func checkOutputs(from []string, flags runFlags, captures []runner.Capture, runs []scenario.Run) error {
	var single, each []outputFile
	for _, o := range []outputFile{{"--out", flags.out}, {"--html", flags.html}, {"--record", flags.record}, {"--cpuprofile", flags.cpuProfile}} {
		if o.path != "" {
			single = append(single, o)
		}
	}
	if flags.events != "" {
		each = append(each, outputFile{"--events", flags.events})
	}
	if flags.flows != "" {
		each = append(each, outputFile{"--flows", flags.flows})
	}
	if flags.trace.path != "" {
		each = append(each, outputFile{"--trace", flags.trace.path})
	}
	for _, c := range captures {
		each = append(each, outputFile{"--pcap", c.Path})
	}
	taken, there := map[string]string{}, map[string]os.FileInfo{} // by flag: the files that exist
	take := func(o outputFile) error {
		id, regular := fileIdentity(o.path)
		if !regular {
			return nil // a device or a pipe
		}
		other, twice := taken[id]
		if info, err := os.Stat(o.path); err == nil {
			for flag, old := range there {
				if os.SameFile(info, old) { // another name of it, a hard link
					other, twice = flag, true
				}
			}
			there[o.flag] = info
		}
		if twice {
			return fmt.Errorf("%s: %s is where %s is; give each a file of its own", o.flag, o.path, other)
		}
		taken[id] = o.flag
		return nil
	}
	for i, name := range from {
		if slices.Contains(from[:i], name) {
			return fmt.Errorf("%s is named twice", name)
		}
		if err := take(outputFile{"the scenario", name}); err != nil {
			return err
		}
	}
	for _, o := range single {
		if err := take(o); err != nil {
			return err
		}
	}
	for _, o := range each {
		for _, r := range runs {
			if err := take(outputFile{o.flag, runner.FileOf(o.path, r, len(runs))}); err != nil {
				return err
			}
		}
		// Files of runs are opened when the run begins, as there may be many; one
		// is tried now.
		if len(runs) == 0 {
			continue
		}
		if err := tryCreate(o.flag, runner.FileOf(o.path, runs[0], len(runs))); err != nil {
			return err
		}
	}
	return nil
}

// fileIdentity returns a path that two names of a file share, and whether it is, or
// would be, a regular file.
func fileIdentity(path string) (id string, regular bool) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return path, info.IsDir()
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	} else if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(dir, filepath.Base(path))
	}
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return path, true
}

// tryCreate reports whether a file can be written, and leaves all as it was.
func tryCreate(flag, path string) error {
	info, err := os.Stat(path)
	if err == nil && info.Mode()&os.ModeNamedPipe != 0 {
		return nil // it may have no reader yet
	}
	fresh := errors.Is(err, fs.ErrNotExist)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return openError(flag, err)
	}
	err = file.Close()
	if fresh {
		err = errors.Join(err, os.Remove(path))
	}
	if err != nil {
		return openError(flag, err)
	}
	return nil
}

func createOutput(ctx context.Context, flag, path string) (*durable.Output, error) {
	file, err := durable.Create(ctx, path)
	if ctx.Err() != nil && err != nil {
		return nil, fmt.Errorf("%s: %s: %w before the pipe had a reader", flag, path, errInterrupted)
	}
	if err != nil {
		return nil, openError(flag, err)
	}
	return file, nil
}

func openError(flag string, err error) error {
	return fmt.Errorf("%s: %w; name a file in a folder that exists and can be written", flag, err)
}

// reportPage returns the header of a report: version, command line and input files.
func (a *app) reportPage(files ...string) report.Page {
	p := report.Page{Version: a.version, Command: a.command}
	for _, name := range files {
		if text, err := os.ReadFile(name); err == nil { // it was read before; if it is gone, the page does without
			p.Sources = append(p.Sources, report.Source{Name: name, Text: string(text)})
		}
	}
	return p
}

// maxViewHints is how many runs a report names one by one.
const maxViewHints = 64

// viewHints returns, for each run of a report, the command that shows its trace; without traces the command that makes
// them.
func (t *runPrinter) viewHints() (all []report.ViewHint) {
	if t.flags.trace.path == "" {
		if t.flags.out != "" {
			return resultViewHints(t.flags.out)
		}
		return []report.ViewHint{
			{What: "No trace was written. This writes one a run:", Command: t.app.command + " --trace trace.pftrace"},
			{What: "and then:", Command: "ethereal view trace*.pftrace"},
		}
	}
	for _, run := range t.runs {
		path := runner.FileOf(t.flags.trace.path, run, len(t.runs))
		if _, err := os.Stat(path); err != nil || len(all) == maxViewHints {
			continue // it was interrupted
		}
		look := report.ViewHint{What: run.String(), Command: report.QuoteShell([]string{"ethereal", "view", path})}
		if rel, err := filepath.Rel(filepath.Dir(t.flags.html), path); err == nil {
			look.File = (&url.URL{Path: filepath.ToSlash(rel)}).String()
		}
		all = append(all, look)
	}
	return all
}

// tracePattern names the file of the only run's trace, or the files of all by a pattern.
func (t *runPrinter) tracePattern() string {
	path := t.flags.trace.path
	if len(t.runs) == 1 {
		return path
	}
	ext := filepath.Ext(path)
	return strings.TrimSuffix(path, ext) + ".*" + ext
}

// resultViewHints is like looks, for files of results.
func resultViewHints(files ...string) []report.ViewHint {
	return []report.ViewHint{{
		What:    fmt.Sprintf("The use of links over each whole run, and its timeline; of %d runs at most:", maxViewed),
		Command: report.QuoteShell(append([]string{"ethereal", "view"}, files...)),
	}}
}
