// Package eventlog is the log of what a controller received, decided, wrote and sent to agents: JSON, one record
// per line. A log from one world can be replayed in another, and two worlds' logs can be compared.
package eventlog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/rollout"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
)

// Record is one line of the controller's event log. Empty fields are left out.
type Record struct {
	Time time.Time `json:"time"`
	// Kind is one of these. The controller: start, end. Received: port, speed, phase, health, report, flip.
	// Decided: settled, believed, calmed, link, drain, suspect, verdict, late, refused. Sent to switches: write,
	// repair, change. Sent to agents: notice. The log: lost, for records that could not be written.
	Kind   string  `json:"kind"`
	Switch string  `json:"switch,omitempty"`
	Port   int     `json:"port,omitempty"`
	Link   string  `json:"link,omitempty"`
	Host   string  `json:"host,omitempty"`
	To     string  `json:"to,omitempty"` // name of the destination ToR of a path
	Label  int     `json:"label,omitempty"`
	Up     *bool   `json:"up,omitempty"`
	Damped bool    `json:"damped,omitempty"` // not believed, because the port flaps
	Epoch  uint64  `json:"epoch,omitempty"`
	State  string  `json:"state,omitempty"`
	Count  int     `json:"count,omitempty"` // number of updates
	Millis float64 `json:"ms,omitempty"`
	Error  string  `json:"error,omitempty"`
	// Fabric is the controller's fabric, in the record of its start.
	Fabric *fabric.Spec `json:"fabric,omitempty"`
}

// Log writes the controller's event log. It is safe for concurrent use; a nil Log writes nothing. A record that cannot
// be written is counted: the log given to [Log.Warn] reports it at once, and a record of kind "lost" when writing works
// again.
type Log struct {
	mu             sync.Mutex
	w              io.Writer
	log            *slog.Logger
	err            error // why the latest record was not written
	lost           int   // records lost since the last written one
	totalLost      int   // all records lost
	incompleteLine bool  // the last line is incomplete

	watch func(Record) // nil: no watcher
}

// New returns a log that writes to w.
func New(w io.Writer) *Log {
	return &Log{w: w, log: slog.New(slog.DiscardHandler)}
}

// Open returns a log that appends to the file at path, and a function that closes it.
func Open(path string) (*Log, func() error, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o644)
	if err != nil {
		return nil, nil, err
	}
	l := New(f)
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && info.Size() > 0 {
		var last [1]byte
		_, err := f.ReadAt(last[:], info.Size()-1)
		l.incompleteLine = err != nil || last[0] != '\n' // because of a crash; an empty line does no harm
	}
	return l, func() error { return errors.Join(f.Sync(), f.Close()) }, nil
}

// Warn makes log report when writing fails, and when it works again.
func (l *Log) Warn(log *slog.Logger) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.log = log
}

// Watch also passes every record to watch, before it is written. watch must return at once and not call the log.
func (l *Log) Watch(watch func(Record)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watch = watch
}

// Add writes a record, or counts it as lost.
func (l *Log) Add(r Record) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.watch != nil {
		l.watch(r)
	}
	if l.lost > 0 && l.write(Record{Time: r.Time, Kind: "lost", Count: l.lost, Error: l.err.Error()}) == nil {
		l.log.Warn("event log: writing works again", "lost", l.lost)
		l.lost, l.err = 0, nil
	}
	err := l.err
	if err == nil {
		err = l.write(r)
	}
	if err == nil {
		return
	}
	if l.lost == 0 {
		l.log.Error("event log: records are lost", "err", err)
	}
	l.err = err
	l.lost++
	l.totalLost++
}

// write writes one line. It first ends an incomplete line.
func (l *Log) write(r Record) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	if l.incompleteLine {
		line = append([]byte{'\n'}, line...)
	}
	n, err := l.w.Write(line)
	if n > 0 {
		l.incompleteLine = n < len(line)
	}
	if n == len(line)-1 { // only the newline is missing
		return nil
	}
	return err
}

// Err returns an error if records were lost, or nil.
func (l *Log) Err() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.err != nil:
		return fmt.Errorf("event log: %d records were lost: %w", l.totalLost, l.err)
	case l.totalLost > 0:
		return fmt.Errorf("event log: %d records were lost", l.totalLost)
	}
	return nil
}

// maxRecord is the maximum length of a line, in bytes.
const maxRecord = 1 << 20

// Records calls f with the records of an event log, numbered from 1. Incomplete lines, from a full disk or a power
// loss, are left out; cut lists them.
func Records(r io.Reader, f func(n int, rec Record) error) (cut []int, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxRecord)
	n := 0
	for lines.Scan() {
		// A file system that grew the file before a power loss may show zeros.
		line := bytes.TrimSpace(bytes.TrimRight(lines.Bytes(), "\x00"))
		if len(line) == 0 {
			continue
		}
		n++
		var rec Record
		dec := json.NewDecoder(bytes.NewReader(line))
		if err := dec.Decode(&rec); errors.Is(err, io.ErrUnexpectedEOF) || err != nil && bytes.IndexByte(line, 0) >= 0 {
			cut = append(cut, n)
			continue
		} else if err != nil {
			return cut, fmt.Errorf("record %d: %w", n, err)
		}
		if dec.More() {
			return cut, fmt.Errorf("record %d: more than one on a line", n)
		}
		if err := f(n, rec); err != nil {
			return cut, fmt.Errorf("record %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return cut, fmt.Errorf("record %d: %w", n+1, err)
	}
	return cut, nil
}

// Ready writes the decisions of a controller's core.
func (l *Log) Ready(f *fabric.Fabric, at time.Time, r rollout.Ready) {
	if l == nil {
		return
	}
	for _, e := range r.Events {
		if rec, ok := record(f, e); ok {
			rec.Time = at
			l.Add(rec)
		}
	}
	for _, u := range r.Notices {
		l.Add(notice(f, at, u))
	}
	for _, w := range r.Writes {
		l.Add(Record{Time: at, Kind: "write", Switch: f.Name(w.Node), Count: len(w.Updates)})
	}
}

// record returns an event's record; ok is false if the log leaves it out.
func record(f *fabric.Fabric, e rollout.Event) (r Record, ok bool) {
	port := func(kind string) Record {
		return Record{Kind: kind, Switch: f.Name(e.Node), Port: int(e.Port), Up: &e.Up}
	}
	switch e.Kind {
	case rollout.PortReported:
		r = port("port")
		r.Damped = e.Damped
	case rollout.PortSpeed:
		r = Record{Kind: "speed", Switch: f.Name(e.Node), Port: int(e.Port), State: fabric.SpeedName(e.Rate)}
	case rollout.Believed:
		r = port("believed")
	case rollout.FlappingEnded:
		r = Record{Kind: "calmed", Switch: f.Name(e.Node), Port: int(e.Port)}
	case rollout.LinkChanged:
		r = Record{Kind: "link", Link: f.LinkName(e.Link), Up: &e.Up, Epoch: e.Epoch}
	case rollout.Drained:
		r = Record{Kind: "drain", Link: f.LinkName(e.Link), Up: &e.Up}
	case rollout.Suspected:
		r = Record{Kind: "suspect", Link: f.LinkName(e.Link), State: suspicionText(!e.Up, e.Confirmed), Epoch: e.Epoch}
	case rollout.Started:
		r = Record{Kind: "settled", Epoch: e.Epoch}
	case rollout.Repaired:
		r = Record{Kind: "repair", Switch: f.Name(e.Node), Count: e.Count}
	case rollout.Late:
		r = Record{Kind: "late", Switch: f.Name(e.Node)}
	case rollout.Changed:
		took := e.Change.Written - e.Change.Trigger
		r = Record{Kind: "change", Epoch: e.Change.Epoch, Count: e.Change.Updates, Millis: took.Micros() / 1000}
	default:
		return r, false
	}
	return r, true
}

// notice returns the record of an update to agents about one link.
func notice(f *fabric.Fabric, at time.Time, u *statepb.Update) Record {
	r := Record{Time: at, Kind: "notice", Epoch: u.GetEpoch()}
	for _, l := range u.GetLinks() {
		up := l.GetUp()
		r.Link, r.Up = f.LinkName(fabric.LinkID(l.GetLink())), &up
	}
	for _, l := range u.GetRates() {
		rate := fabric.Rate(l.GetBitsPerSecond())
		if r.Link, r.State = f.LinkName(fabric.LinkID(l.GetLink())), "full speed"; rate > 0 {
			r.State = fabric.SpeedName(rate)
		}
	}
	for _, s := range u.GetSuspects() {
		r.Link, r.State = f.LinkName(fabric.LinkID(s.GetLink())), suspicionText(s.GetSuspected(), s.GetConfirmed())
	}
	return r
}

func suspicionText(is, confirmed bool) string {
	switch {
	case is && confirmed:
		return "confirmed"
	case is:
		return "suspected"
	}
	return "cleared"
}

// Replay gives a new core the inputs that a log has recorded, at the recorded times: port states, speeds, drains,
// suspicions. The core then has the tables of the core that wrote the log. step, if not nil, is called after each
// change to examine what the core requests. At each start of a controller in the log, Replay begins again with another
// core from fresh.
func Replay(r io.Reader, fresh func() (*controller.Core, error), step func(*controller.Core)) (*controller.Core, error) {
	l := replayedCore{fresh: fresh}
	if err := l.begin(); err != nil {
		return nil, err
	}
	_, err := Records(r, func(_ int, rec Record) error {
		did, err := l.take(rec)
		if err == nil && did && step != nil {
			step(l.core)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("event log: %w", err)
	}
	return l.core, nil
}

// inputKinds are the kinds of records that are inputs of a core.
var inputKinds = []string{"start", "believed", "speed", "drain", "suspect"}

// replayedCore is a controller core that replays an event log.
type replayedCore struct {
	fresh func() (*controller.Core, error)
	core  *controller.Core
	began time.Time
}

// begin restarts the replay.
func (l *replayedCore) begin() (err error) {
	l.began = time.Time{}
	l.core, err = l.fresh()
	return err
}

// take replays one record; did is false if the record is not an input of the core.
func (l *replayedCore) take(rec Record) (did bool, err error) {
	if l.began.IsZero() || rec.Kind == "start" {
		l.began = rec.Time
	}
	f := l.core.Fabric()
	at := fabric.Time(rec.Time.Sub(l.began).Nanoseconds()) * fabric.Nanosecond
	var node fabric.NodeID
	var link fabric.LinkID
	switch rec.Kind {
	case "start":
		l.core, err = l.fresh()
	case "believed":
		if node, err = f.NodeByName(rec.Switch); err == nil {
			err = l.core.PortState(at, node, fabric.PortNo(rec.Port), rec.Up != nil && *rec.Up)
		}
	case "speed":
		var rate fabric.Rate
		if node, err = f.NodeByName(rec.Switch); err == nil {
			rate, err = fabric.ParseSpeed(rec.State)
		}
		if err == nil {
			err = l.core.PortRate(node, fabric.PortNo(rec.Port), rate)
		}
	case "drain":
		if link, err = f.LinkByName(rec.Link); err == nil {
			err = l.core.Drain(at, link, rec.Up == nil || !*rec.Up)
		}
	case "suspect":
		if link, err = f.LinkByName(rec.Link); err == nil {
			err = l.core.Suspect(at, link, rec.State != "cleared", rec.State == "confirmed")
		}
	default:
		return false, nil
	}
	return true, err
}
