package workload

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

func loadFlows(t *testing.T, text string) (*Program, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "flows.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(path, Place{Ranks: 0, Seed: 1})
}

// TestFlowsBegin: flows begin at their times, or when their event has been raised as often as they say.
func TestFlowsBegin(t *testing.T) {
	p, err := loadFlows(t, `flows:
  - {from: 0, to: 1, bytes: 10, sent: first, received: all}
  - {from: 2, to: 3, bytes: 20, at: 5us, received: all}
  - {from: 0, to: 2, bytes: 30, after: first}
  - {from: 3, to: 1, bytes: 40, after: all, count: 2, at: 1us}
`)
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewRunner(p)
	if err != nil {
		t.Fatal(err)
	}
	var posted []int64
	sent := map[int64]collective.Send{}
	emit := func(s collective.Send) { posted = append(posted, s.Bytes); sent[s.Bytes] = s }
	check := func(when string, want ...int64) {
		t.Helper()
		if len(posted) != len(want) || len(want) > 0 && posted[0] != want[0] {
			t.Errorf("%s: messages of %v bytes were posted, want %v", when, posted, want)
		}
		posted = nil
	}
	now := fabric.Time(0)
	step := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	r.Start(now, emit)
	check("start", 10)
	step(r.Received(now, sent[10].ID, emit))
	check("the first is received")
	step(r.Sent(now, sent[10].ID, emit))
	check("the first is acknowledged", 30)
	r.Tick(5*fabric.Microsecond, emit)
	check("after 5us", 20)
	step(r.Received(7*fabric.Microsecond, sent[20].ID, emit))
	check("both are received")
	at, ok := r.Deadline()
	if !ok || at != 8*fabric.Microsecond {
		t.Fatalf("the last begins at %v, want 8us", at)
	}
	r.Tick(at, emit)
	check("1us later", 40)
}

func TestFlowsErrors(t *testing.T) {
	for _, c := range []struct{ flows, want string }{
		{"{from: 0, to: 0, bytes: 1}", "flows[0].to: a flow from a rank to itself"},
		{"{from: 0, to: -1, bytes: 1}", "flows[0].to: rank -1 is not there"},
		{"{from: 0, to: 1, bytes: 0}", "flows[0].bytes: 0B is no message"},
		{"{from: 0, to: 1, bytes: 1, count: 2}", "flows[0].count"},
		{"{from: 0, to: 1, bytes: 1, after: x}", `flows[0].after: event "x" is raised 0 times`},
		{"{from: 0, to: 1, bytes: 1, sent: x}, {from: 1, to: 0, bytes: 1, after: x, count: 2}", `flows[1].after: event "x" is raised 1 times`},
		{"{from: 0, to: 1, bytes: 1}, {from: 0, to: 1, bytes: 1, after: y, sent: x}, {from: 1, to: 0, bytes: 1, after: x, sent: y}",
			`flows[1].after: event "y" is not raised before the flow itself ends`},
	} {
		_, err := loadFlows(t, "flows: ["+c.flows+"]\n")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.flows, err, c.want)
		}
	}
}

// TestFlowsSchedule: the lower bound's schedule has the waits for all raisers of an event, and no others.
func TestFlowsSchedule(t *testing.T) {
	p, err := loadFlows(t, `flows:
  - {from: 0, to: 1, bytes: 10, received: all}
  - {from: 2, to: 3, bytes: 20, received: all}
  - {from: 1, to: 0, bytes: 30, after: all, count: 2}
  - {from: 3, to: 2, bytes: 40, after: all}
`)
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.Schedule()
	if err != nil {
		t.Fatal(err)
	}
	// Which messages are received before another can be posted.
	next := map[int][]int{}
	for _, w := range s.Waits {
		next[w.From] = append(next[w.From], w.To)
	}
	for _, m := range s.Messages {
		next[m.Posted] = append(next[m.Posted], m.Received)
	}
	var reach func(from int, seen map[int]bool)
	reach = func(from int, seen map[int]bool) {
		if !seen[from] {
			seen[from] = true
			for _, n := range next[from] {
				reach(n, seen)
			}
		}
	}
	before := map[int64]int{}
	for _, m := range s.Messages {
		seen := map[int]bool{}
		reach(m.Received, seen)
		for _, o := range s.Messages {
			if o.Bytes != m.Bytes && seen[o.Posted] {
				before[o.Bytes]++
			}
		}
	}
	if before[30] != 2 || before[40] != 0 || len(before) != 1 {
		t.Errorf("messages by bytes wait for so many others: %v", before)
	}
}
