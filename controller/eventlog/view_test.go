package eventlog

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
)

const viewed = `{"time":"2026-01-01T00:00:00Z","kind":"start","state":"a","fabric":{"kind":"leaf-spine","tors":2,"spines":2,"hosts_per_tor":1}}
{"time":"2026-01-01T00:00:01Z","kind":"believed","switch":"tor0","port":2,"up":false}
{"time":"2026-01-01T00:00:01.5Z","kind":"link","link":"tor0-spine0","up":false,"epoch":1}
{"time":"2026-01-01T00:00:02Z","kind":"write","switch":"tor0","count":3}
{"time":"2026-01-01T00:00:03Z","kind":"flip","host":"h1","state":"queue pair 3 from path 0 to 1: push","count":1}
{"time":"2026-01-01T00:00:09Z","kind":"start","state":"b"}
{"time":"2026-01-01T00:00:10Z","kind":"end"}
`

// TestLogView: each run of a controller is one on the page, and a switch's tables are those of the time.
func TestLogView(t *testing.T) {
	if _, err := ReadRuns(strings.NewReader(viewed), nil); err == nil || !strings.Contains(err.Error(), "--fabric") {
		t.Errorf("the second run does not say its fabric: %v", err)
	}
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindFatTree, K: 4})
	if err != nil {
		t.Fatal(err)
	}
	all, err := ReadRuns(strings.NewReader(viewed), f)
	if err != nil || len(all) != 2 {
		t.Fatalf("%d runs, %v", len(all), err)
	}
	run := all[0].Run
	if len(run.Nodes) != 6 || len(all[1].Run.Nodes) != 36 || run.End != 3e6 || len(run.Events) != 5 {
		t.Fatalf("%d and %d nodes, end %g, %d events", len(run.Nodes), len(all[1].Run.Nodes), run.End, len(run.Events))
	}
	if e := run.Events[2]; e.Kind != "link" || e.Text != "down" || e.Dir != 4 {
		t.Errorf("the link's event is %+v", e)
	}
	for _, c := range []struct {
		t    float64
		want string
	}{
		{0.5e6, "one of: to spine0 by port 2; to spine1 by port 3"}, {2.5e6, "one of: to spine1 by port 3"},
	} {
		s, err := all[0].Switch("tor0", c.t)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, table := range s.Tables {
			for _, row := range table.Rows {
				found = found || table.Name == "ecmp" && strings.HasSuffix(row[1], c.want)
			}
		}
		if !found {
			t.Errorf("at %g us no %q in %v", c.t, c.want, s.Tables)
		}
	}
	if s, err := all[0].Switch("h0", 1); s != nil || err != nil {
		t.Errorf("h0 is a switch: %v, %v", s, err)
	}
}

// TestLogViewBackAndForth: a switch's tables are those of the time, in whatever order they are asked for.
func TestLogViewBackAndForth(t *testing.T) {
	log := longLog(200)
	run := func() *ControllerRun {
		all, err := ReadRuns(strings.NewReader(log), nil)
		if err != nil || len(all) != 1 {
			t.Fatal(len(all), err)
		}
		return all[0]
	}
	one := run()
	for _, at := range []float64{150.5e6, 20.5e6, 20.5e6, 21.5e6, 0, 190.5e6, 1e12, -5, 77.5e6} {
		got, err := one.Switch("tor1", at)
		want, err2 := run().Switch("tor1", at)
		if err != nil || err2 != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("at %g us: %v, %v; the tables differ from those of a log that was not asked before", at, err, err2)
		}
	}
	a, _ := one.Switch("tor1", 20.5e6)
	if b, _ := one.Switch("tor1", 21.5e6); reflect.DeepEqual(a, b) {
		t.Error("the tables do not change")
	}
}

// longLog returns a log of a link that goes down and up each second.
func longLog(changes int) string {
	var b strings.Builder
	log, at := New(&b), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	log.Add(Record{Time: at, Kind: "start", State: "a", Fabric: &fabric.Spec{Kind: fabric.KindFatTree, K: 8}})
	for n := range changes {
		at = at.Add(time.Second)
		up := n%2 == 1
		log.Add(Record{Time: at, Kind: "port", Switch: "tor1", Port: 5, Up: &up})
		log.Add(Record{Time: at, Kind: "believed", Switch: "tor1", Port: 5, Up: &up})
		for range 20 {
			log.Add(Record{Time: at, Kind: "write", Switch: "tor1", Count: 3})
		}
	}
	return b.String()
}

// BenchmarkSwitchAt is what it takes to answer what a switch had, of a log of 44,000 records, as somebody scrubs on.
func BenchmarkSwitchAt(b *testing.B) {
	const changes = 2000
	all, err := ReadRuns(strings.NewReader(longLog(changes)), nil)
	if err != nil {
		b.Fatal(err)
	}
	n := 0
	for b.Loop() {
		n++
		if _, err := all[0].Switch("tor1", float64(n%changes)*1e6); err != nil {
			b.Fatal(err)
		}
	}
}
