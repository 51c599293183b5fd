package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/ethereal-fabric/ethereal/controller/eventlog"
	"github.com/ethereal-fabric/ethereal/controller/view"
	"github.com/ethereal-fabric/ethereal/controller/view/viewhttp"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/bounded"
	"github.com/ethereal-fabric/ethereal/testbed/recording"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/runner"
)

// viewLoader reads the files that a page shows.
type viewLoader struct {
	ctx    context.Context
	fabric *fabric.Fabric // of files that do not say which they are of; nil: it was not named
	runs   []*view.Run
	logs   map[int]*eventlog.ControllerRun // controllers' logs among the runs
	traces map[int]string                  // files of traces
}

func (l *viewLoader) readFabric(path string) error {
	if path == "" {
		return nil
	}
	spec, err := fabric.LoadSpec(path)
	if err != nil {
		return err
	}
	l.fabric, err = fabric.New(spec)
	return err
}

// maxRead bounds the bytes that are read of one file.
const maxRead = 2 << 30

// loadFile reads a file of any kind, recognised by its beginning.
func (l *viewLoader) loadFile(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("view: %w", err)
	}
	defer file.Close() //nolint:errcheck // it is only read
	r := bufio.NewReaderSize(bounded.Reader(l.ctx, file, maxRead), 1<<16)
	head, err := r.Peek(1 << 16)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("view: %w", err)
	}
	line, _, _ := bytes.Cut(bytes.TrimLeft(head, "\x00 \r\n"), []byte("\n")) // a log that was cut off may begin so
	var of struct {
		Kind string    `json:"kind"`
		At   *float64  `json:"t_us"`
		New  *struct{} `json:"new"` // of a host's log
	}
	switch bad := json.Unmarshal(line, &of); {
	case bad == nil && of.Kind != "" && of.At != nil:
		err = l.record(r)
	case bad == nil && of.Kind != "":
		err = l.controllerLog(r)
	case recording.IsTrace(head):
		err = l.trace(r, name)
	case bad == nil && of.New != nil:
		err = l.hostLog(r, name)
	default:
		return l.results(r, name) // it names the file itself
	}
	if err != nil {
		return fmt.Errorf("view: %s: %w", name, err)
	}
	return nil
}

func (l *viewLoader) trace(r io.Reader, name string) error {
	t, err := recording.Read(l.ctx, r)
	if err != nil {
		return err
	}
	if l.traces == nil {
		l.traces = map[int]string{}
	}
	l.traces[len(l.runs)] = name
	run := t.View()
	run.Trace = filepath.Base(name)
	l.runs = append(l.runs, run)
	return nil
}

func (l *viewLoader) results(r io.Reader, name string) error {
	results, err := report.Decode(r, name)
	if err != nil {
		return err
	}
	for _, result := range results {
		r, err := recording.FromResult(result)
		if err != nil {
			return fmt.Errorf("view: %s: %v: %w", name, result, err)
		}
		l.runs = append(l.runs, r.View())
	}
	return nil
}

// errNoFabric is returned if none of the files names a fabric.
var errNoFabric = errors.New("it does not say of which fabric it is; name the fabric with --fabric")

func (l *viewLoader) record(r io.Reader) error {
	all, err := runner.DecodeRecords(r)
	if err != nil {
		return err
	}
	for _, x := range all {
		f := x.Fabric
		if f == nil {
			f = l.fabric
		}
		if f == nil {
			return errNoFabric
		}
		rec := recording.New(f, recording.Options{})
		for _, e := range x.Happened {
			rec.Happened(e)
		}
		run := rec.EndWithoutResult().View()
		run.Title = x.Title
		l.runs = append(l.runs, run)
	}
	return nil
}

func (l *viewLoader) hostLog(r io.Reader, name string) error {
	if l.fabric == nil {
		return errNoFabric
	}
	rec, host, err := recording.ReadHostLog(r, l.fabric)
	if err != nil {
		return err
	}
	run := rec.View()
	run.Title = host + ", by " + filepath.Base(name)
	l.runs = append(l.runs, run)
	return nil
}

func (l *viewLoader) controllerLog(r io.Reader) error {
	all, err := eventlog.ReadRuns(r, l.fabric)
	if err != nil {
		return err
	}
	for _, v := range all {
		if l.logs == nil {
			l.logs = map[int]*eventlog.ControllerRun{}
		}
		l.logs[len(l.runs)] = v
		l.runs = append(l.runs, v.Run)
	}
	return nil
}

// server returns an HTTP server of a page with the loaded files.
func (l *viewLoader) server(p *view.Page) *viewhttp.Server {
	s := viewhttp.NewServer(func() (*view.Page, error) { return p, nil }, nil)
	if len(l.traces) > 0 {
		s.WithTraces(func(run int) (io.ReadSeekCloser, error) {
			if name, ok := l.traces[run]; ok {
				return os.Open(name)
			}
			return nil, nil
		})
	}
	if len(l.logs) == 0 {
		return s
	}
	return s.WithSwitchStates(func(_ context.Context, run int, name string, t float64) (*view.Switch, error) {
		if v := l.logs[run]; v != nil {
			return v.Switch(name, t)
		}
		return nil, nil
	})
}
