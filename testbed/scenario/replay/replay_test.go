package replay

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/eventlog"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// lab is the fabric of testdata/lab.jsonl: a log that a controller wrote while
// processes of a leaf-spine were killed and links taken down.
func lab(t *testing.T) *fabric.Fabric {
	t.Helper()
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 3, Spines: 2, HostsPerToR: 2})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// text prints a case, a line for each change.
func text(c Case) string {
	var b strings.Builder
	for _, e := range c.Events {
		fmt.Fprintln(&b, strings.TrimSpace(fmt.Sprintf("%v %s %s", e.At, e.Action, e.Link)))
	}
	return b.String()
}

const story = `
{"time":"2026-01-01T00:00:00Z","kind":"start"}
{"time":"2026-01-01T00:00:00.1Z","kind":"port","switch":"tor0","port":3,"up":true}
{"time":"2026-01-01T00:00:01Z","kind":"port","switch":"tor0","port":3,"up":false}
{"time":"2026-01-01T00:00:01.2Z","kind":"port","switch":"spine0","port":1,"up":false,"held":true}
{"time":"2026-01-01T00:00:02Z","kind":"port","switch":"tor0","port":3,"up":true}
{"time":"2026-01-01T00:00:02.5Z","kind":"port","switch":"spine0","port":1,"up":true}
{"time":"2026-01-01T00:00:03Z","kind":"drain","link":"tor1-spine1","up":false}
{"time":"2026-01-01T00:00:04Z","kind":"port","switch":"tor2","port":4,"up":false}
{"time":"2026-01-01T00:00:05Z","kind":"something new","switch":"tor9"}
{"time":"2026-01-01T00:00:06Z","kind":"start"}
{"time":"2026-01-01T00:00:06.5Z","kind":"port","switch":"tor2","port":4,"up":false}
{"time":"2026-01-01T00:00:07Z","kind":"port","switch":"tor2","port":4,"up":true}
{"time":"2026-01-01T00:00:08Z","kind":"end"}
`

func TestCase(t *testing.T) {
	f := lab(t)
	l, err := Read(strings.NewReader(story), f)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name          string
		w             Window
		before, after int
		want          string
	}{
		{"all", Window{Deadline: 10 * fabric.Second}, 0, 0, `
1s cut tor0-spine0
2.5s restore tor0-spine0
3s drain tor1-spine1
4s cut tor2-spine1
5s controller-down
6s controller-up
7s restore tor2-spine1
8s controller-down
`},
		{"fast, and cut off", Window{Deadline: fabric.Millisecond, Speed: 2000}, 0, 7, `
500us cut tor0-spine0
`},
		{"from the middle", Window{From: 3500 * time.Millisecond, Deadline: 10 * fabric.Second}, 3, 0, `
0s drain tor1-spine1
500ms cut tor2-spine1
1.5s controller-down
2.5s controller-up
3.5s restore tor2-spine1
4.5s controller-down
`},
		{"while there is no controller", Window{From: 5500 * time.Millisecond, Speed: 1000, Deadline: fabric.Millisecond}, 5, 2, `
0s cut tor2-spine1
0s drain tor1-spine1
0s controller-down
500us controller-up
`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := l.Case(tt.w)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(strings.TrimPrefix(tt.want, "\n"), text(c)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if c.Before != tt.before || c.After != tt.after {
				t.Errorf("%d before, %d after, want %d and %d", c.Before, c.After, tt.before, tt.after)
			}
		})
	}
	if _, err := l.Case(Window{Deadline: 100 * fabric.Millisecond}); !errors.Is(err, ErrLog) || !strings.Contains(err.Error(), "goes down at 1s") {
		t.Errorf("a window without changes: %v", err)
	}
	for _, w := range []Window{{From: -1, Deadline: 1}, {Speed: -1, Deadline: 1}, {Detection: -1, Deadline: 1}, {}} {
		if _, err := l.Case(w); !errors.Is(err, ErrLog) {
			t.Errorf("%+v: %v", w, err)
		}
	}
}

func TestBadLogs(t *testing.T) {
	f := lab(t)
	for _, bad := range []string{
		"{]", `{"kind":"port","switch":"tor9","port":1,"up":true}`, `{"kind":"port","switch":"tor0","port":9,"up":true}`,
		`{"kind":"port","switch":"tor0","port":3}`, `{"kind":"drain","link":"tor0"}`, `{"kind":"port","switch":"tor0","port":-70000,"up":true}`,
	} {
		if _, err := Read(strings.NewReader(bad), f); !errors.Is(err, ErrLog) || !strings.Contains(err.Error(), "record 1") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// TestRecorded reads what a controller wrote under chaos. Its links end as those of a
// core that is led through the log, and a scenario takes what comes of it.
func TestRecorded(t *testing.T) {
	f := lab(t)
	read := func() *os.File {
		file, err := os.Open("testdata/lab.jsonl")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { file.Close() })
		return file
	}
	l, err := Read(read(), f)
	if err != nil {
		t.Fatal(err)
	}
	c, err := l.Case(Window{Deadline: 1000 * fabric.Second, Detection: 10 * fabric.Microsecond})
	if err != nil {
		t.Fatal(err)
	}
	if c.Links < 10 || c.Control < 2 || c.After > 0 {
		t.Errorf("%d changes of links, %d of the control plane, %d left out", c.Links, c.Control, c.After)
	}
	events, err := scenario.Failure{Events: c.Events}.LinkEvents(f, 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(events) != c.Links {
		t.Errorf("%d of %d events change something", len(events), c.Links)
	}
	core, err := eventlog.Replay(read(), func() (*controller.Core, error) {
		return controller.New(controller.Config{Fabric: f, CarrierV4: controller.UDPSourcePort})
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	up := map[fabric.LinkID]bool{}
	for _, e := range events {
		up[e.Link] = e.Up
	}
	for id, is := range up {
		if core.LinkUp(id) != is {
			t.Errorf("%s: up %v in the run, %v in the core", f.LinkName(id), is, core.LinkUp(id))
		}
	}
}

// FuzzRead reads anything without panic, and makes only events that a scenario takes.
func FuzzRead(f *testing.F) {
	f.Add([]byte(story), int64(0), 1.0)
	f.Add([]byte(story), int64(3e9), 1000.0)
	spec := fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 3, Spines: 2, HostsPerToR: 2}
	tree, err := fabric.New(spec)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte, from int64, speed float64) {
		l, err := Read(strings.NewReader(string(text)), tree)
		if err != nil {
			return
		}
		c, err := l.Case(Window{From: time.Duration(from), Speed: speed, Deadline: 10 * fabric.Second})
		if err != nil {
			return
		}
		var last fabric.Time
		for _, e := range c.Events {
			if e.At < last || e.At >= 10*fabric.Second {
				t.Fatalf("an event at %v after one at %v", e.At, last)
			}
			last = e.At
		}
		events, err := scenario.Failure{Events: c.Events}.LinkEvents(tree, 1)
		if err != nil || len(events) != c.Links || c.Links+c.Control != len(c.Events) {
			t.Fatalf("%d of %d events, %v", len(events), len(c.Events), err)
		}
	})
}
