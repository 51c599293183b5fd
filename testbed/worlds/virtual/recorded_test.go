package virtual

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ethereal-fabric/ethereal/controller/damping"
	"github.com/ethereal-fabric/ethereal/controller/eventlog"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/scenario/replay"
)

// TestRecorded leads the virtual world through what a controller's process recorded: a
// failure, a recovery, a link that flaps until it is damped, a drain. Its switches are
// written the same and its agents notified the same, in the same order.
func TestRecorded(t *testing.T) {
	text, err := os.ReadFile("../../../controller/daemon/testdata/recorded.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	s := scenario.Default()
	s.Name = "recorded"
	s.Fabric = fabric.Spec{Kind: fabric.KindFatTree, K: 4}
	s.Schemes = []scenario.Scheme{{Name: scenario.Ethereal}}
	s.Collectives = []scenario.Collective{{Kind: "all-reduce", Algorithm: "ring", Bytes: 1e6}}
	s.Control.Damping = damping.Config{} // the process's
	runs, err := s.Expand()
	if err != nil {
		t.Fatal(err)
	}
	run := runs[0]
	l, err := replay.Read(bytes.NewReader(text), run.Fabric)
	if err != nil {
		t.Fatal(err)
	}
	const end = 1000 * fabric.Second
	c, err := l.Case(replay.Window{Deadline: end, Detection: 10 * fabric.Microsecond})
	if err != nil {
		t.Fatal(err)
	}
	run.Notifier, run.Failure = scenario.NotifyAll, scenario.Failure{Name: "recorded", Events: c.Events}
	if run.Events, err = run.Failure.LinkEvents(run.Fabric, 1); err != nil {
		t.Fatal(err)
	}
	if run.Interventions, err = run.Failure.Interventions(run.Fabric); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	lab := *newLab(t)
	lab.log = eventlog.New(&log)
	w, err := newWorld(&lab, run, scenario.Observer{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.start()
	for range 2 { // it stops when the collective is done
		if err := w.net.Run(t.Context(), end); err != nil || w.fault != nil {
			t.Fatal(err, w.fault)
		}
	}
	want := writtenAndSent(t, text)
	if len(want) < 20 {
		t.Fatalf("%d writes and notices are recorded", len(want))
	}
	if d := cmp.Diff(want, writtenAndSent(t, log.Bytes())); d != "" {
		t.Errorf("(-recorded +virtual):\n%s", d)
	}
}

// writtenAndSent returns the writes and notices of a controller's log, from the first
// link on that changed.
func writtenAndSent(t *testing.T, log []byte) (out []string) {
	t.Helper()
	changed := false
	for line := range strings.Lines(string(log)) {
		var r eventlog.Record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		changed = changed || r.Kind == "link"
		switch {
		case changed && r.Kind == "write":
			out = append(out, fmt.Sprintf("write %s %d", r.Switch, r.Count))
		case changed && r.Kind == "notice":
			out = append(out, fmt.Sprintf("notice %d %s %v", r.Epoch, r.Link, *r.Up))
		}
	}
	return out
}
