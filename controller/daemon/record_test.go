package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ethereal-fabric/ethereal/controller/eventlog"
)

var rewrite = flag.Bool("rewrite", false, "write testdata anew")

// TestRecorded records a failure, a recovery, a link that flaps until it is damped, and a
// drain. What is written and notified is as in testdata/recorded.jsonl, which the virtual
// world is led through.
func TestRecorded(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		var log bytes.Buffer
		r := l.run(func(c *Config) { c.Events = eventlog.New(&log); c.Core.Instance = "recorded" })
		waitIdle(r)
		step := func(do func()) {
			time.Sleep(2 * time.Second)
			do()
			synctest.Wait()
			waitIdle(r)
		}
		step(func() { l.link("tor0-agg1", false) })
		step(func() { l.link("tor0-agg1", true) })
		drain := func(undo bool) func() {
			return func() {
				if _, err := r.Drain(context.Background(), "agg0-core1", undo, false); err != nil {
					t.Fatal(err)
				}
			}
		}
		step(drain(false))
		for range 4 {
			step(func() { l.link("tor5-agg4", false) })
			step(func() { l.link("tor5-agg4", true) })
		}
		time.Sleep(2 * time.Minute) // it calms down
		step(drain(true))
		r.stop()

		const path = "testdata/recorded.jsonl"
		if *rewrite {
			if err := os.WriteFile(path, log.Bytes(), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(writtenAndSent(t, want), writtenAndSent(t, log.Bytes())); d != "" {
			t.Errorf("(-recorded +run):\n%s", d)
		}
	})
}

// writtenAndSent returns the writes and notices of a log, from the first link on that
// changed.
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
