package eventlog

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/view"
	"github.com/ethereal-fabric/ethereal/fabric"
)

// updateCountKinds are the kinds of records whose count is a number of table updates.
var updateCountKinds = []string{"write", "repair", "change"}

// Event converts the record into an event of the web page; its time counts from since.
func (r Record) Event(f *fabric.Fabric, since time.Time) view.Event {
	e := view.Event{T: float64(r.Time.Sub(since).Microseconds()), Kind: r.Kind, Node: -1, Dir: -1, Count: int64(r.Count), Text: r.text()}
	for _, name := range []string{r.Switch, r.Host} {
		if n, err := f.NodeByName(name); err == nil {
			e.Node = int(n)
		}
	}
	if l, err := f.LinkByName(r.Link); err == nil {
		e.Dir = int(2 * l)
	} else if e.Node >= f.Hosts() && r.Port > 0 {
		if l, ok := f.LinkAt(fabric.NodeID(e.Node), fabric.PortNo(r.Port)); ok {
			e.Dir = int(2 * l)
		}
	}
	return e
}

// text returns the content of a record besides its kind and place.
func (r Record) text() string {
	var parts []string
	if r.Up != nil {
		parts = append(parts, map[bool]string{true: "up", false: "down"}[*r.Up])
	}
	if r.Count > 0 && slices.Contains(updateCountKinds, r.Kind) {
		parts = append(parts, fmt.Sprintf("%d updates", r.Count))
	}
	for _, text := range []string{r.State, r.To, r.Error} {
		if text != "" {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, ", ")
}

// ControllerRun is one run of a controller, from its start to its end in an event log, as the web page shows it.
type ControllerRun struct {
	Run *view.Run
	f   *fabric.Fabric
	// began is the start of the run, and records are the core's inputs in the order of the log.
	began   time.Time
	records []Record

	// The core after the first replayed records. A request for a later time replays the next ones.
	mu       sync.Mutex
	replay   replayedCore
	replayed int
}

// viewEvents is the largest number of a run's records on a page, the last ones.
const viewEvents = 20_000

// ReadRuns returns the controller runs of an event log for the web page. f is the fabric of runs whose start record
// names none; nil: unknown.
func ReadRuns(r io.Reader, f *fabric.Fabric) ([]*ControllerRun, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	var all []*ControllerRun
	for _, part := range splitAtStarts(text) {
		v := &ControllerRun{f: f}
		if _, err := Records(bytes.NewReader(part), v.take); err != nil {
			return nil, err
		}
		if v.Run == nil {
			continue
		}
		slices.SortStableFunc(v.Run.Events, func(a, b view.Event) int { return cmp.Compare(a.T, b.T) })
		if over := len(v.Run.Events) - viewEvents; over > 0 {
			v.Run.Events, v.Run.Left = v.Run.Events[over:], over
		}
		all = append(all, v)
	}
	return all, nil
}

// splitAtStarts divides a log before each start of a controller.
func splitAtStarts(text []byte) [][]byte {
	var out [][]byte
	from := 0
	for at := 0; at < len(text); {
		end := len(text)
		if n := bytes.IndexByte(text[at:], '\n'); n >= 0 {
			end = at + n + 1
		}
		if at > from && bytes.Contains(text[at:end], []byte(`"kind":"start"`)) {
			out, from = append(out, text[from:at]), at
		}
		at = end
	}
	return append(out, text[from:])
}

// take processes one record of the log.
func (v *ControllerRun) take(_ int, r Record) error {
	if v.Run == nil {
		v.began = r.Time
		if r.Fabric != nil {
			f, err := fabric.New(*r.Fabric)
			if err != nil {
				return fmt.Errorf("its fabric: %w", err)
			}
			v.f = f
		}
		if v.f == nil {
			return fmt.Errorf("the log does not say of which fabric it is; name it with --fabric")
		}
		v.Run = &view.Run{Title: "controller " + r.State + ", from " + r.Time.Format(time.DateTime)}
		v.Run.Nodes, v.Run.Links = view.Graph(v.f)
	}
	if len(v.records) == 0 || slices.Contains(inputKinds, r.Kind) { // the first record's time is the start of the run
		shown := r
		if n := len(v.records); n > 0 && shown.Time.Before(v.records[n-1].Time) {
			shown.Time = v.records[n-1].Time // a clock was set back
		}
		v.records = append(v.records, shown)
	}
	e := r.Event(v.f, v.began)
	e.T = max(0, e.T) // a clock may be set back
	v.Run.End = max(v.Run.End, e.T)
	v.Run.Events = append(v.Run.Events, e)
	return nil
}

// Switch returns the tables that a switch should have at a time of the log, in microseconds from its first record.
// They follow from the controller's inputs until then, with the default settings of a targets file. It returns nil
// if there is no such switch.
func (v *ControllerRun) Switch(name string, t float64) (*view.Switch, error) {
	id, err := v.f.NodeByName(name)
	if err != nil || int(id) < v.f.Hosts() {
		return nil, nil //nolint:nilerr // there is no such switch
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	core, err := v.coreAt(v.began.Add(time.Duration(t * float64(time.Microsecond))))
	if err != nil {
		return nil, err
	}
	s := &view.Switch{Facts: [][2]string{{"tables", "as they follow from the log, with the settings of an empty targets file"}}}
	s.Tables = view.TablesOf(core.Desired(id), func(e controller.Entry) (table, key, does string) {
		key, does = e.Named(v.f, id)
		return e.Table.String(), key, does
	})
	for p := range v.f.Node(id).Ports() {
		l := v.f.Node(id).Link(fabric.PortNo(p + 1))
		port := view.Port{Name: fmt.Sprint(p + 1), To: v.f.Name(v.f.Link(l).Peer(id).Node)}
		switch r := core.LinkReport(l); {
		case r.DownA || r.DownB:
			port.State = "down"
		case r.Drained:
			port.State = "drained"
		case r.Suspected:
			port.State = "suspected"
		}
		s.Ports = append(s.Ports, port)
	}
	return s, nil
}

// coreAt returns the core at a time. v.mu is held.
func (v *ControllerRun) coreAt(until time.Time) (*controller.Core, error) {
	if v.replay.core == nil || v.replayed > 0 && v.records[v.replayed-1].Time.After(until) {
		v.replay.fresh = func() (*controller.Core, error) {
			return controller.New(controller.Config{
				Fabric: v.f, CarrierV4: controller.UDPSourcePort, CarrierV6: controller.UDPSourcePort,
				QuenchIntervalUs: 10, ControlPriority: 7, HashSeed: 1,
			})
		}
		v.replayed = 0
		if err := v.replay.begin(); err != nil {
			return nil, err
		}
	}
	for ; v.replayed < len(v.records) && !v.records[v.replayed].Time.After(until); v.replayed++ {
		if _, err := v.replay.take(v.records[v.replayed]); err != nil {
			v.replay.core = nil // its state is undefined after an error
			return nil, fmt.Errorf("event log: %w", err)
		}
	}
	return v.replay.core, nil
}
