package daemon

import (
	"context"
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"
)

var scaleK = flag.Int("scale.k", 4, "fat-tree of TestProgramming")

// TestProgramming measures how long a controller takes, from its start, to program all
// switches of a fabric over loopback gRPC and to have their ports' states: connecting,
// arbitration, pipeline, tables, subscriptions. The switches are in the same process,
// so its memory is theirs, too. For the numbers of a report, a process for each size:
//
//	for k in 8 16 20 24 32; do go test ./controller/daemon -run TestProgramming -v -args -scale.k=$k; done
func TestProgramming(t *testing.T) {
	l := newLab(t, fatTree(t, *scaleK), true)
	defer l.close()
	before := resident(t)
	began := time.Now()
	r := l.run(func(c *Config) {
		// All sessions begin at once, and share two cores with all the switches.
		c.Heartbeat, c.KeepAlive, c.Settle = time.Minute, time.Minute, 5*time.Minute
	})
	deadline := began.Add(8 * time.Minute)
	for s := r.state(); !s.Ready || s.Busy; s = r.state() {
		if time.Now().After(deadline) {
			t.Fatal("not programmed within 8 minutes")
		}
		time.Sleep(time.Duration(5+len(s.Switches)/10) * time.Millisecond)
	}
	took := time.Since(began)
	updates, pushes := l.wrote()
	if pushes != l.f.Switches() {
		t.Errorf("%d pipelines for %d switches", pushes, l.f.Switches())
	}
	after := resident(t)
	want := 0
	if err := r.runInLoop(context.Background(), func() {
		for _, dev := range r.switches {
			want += len(r.core.Tables().Desired(dev.id))
		}
	}); err != nil {
		t.Fatal(err)
	}
	if updates < want {
		t.Errorf("%d updates for %d entries", updates, want)
	}
	t.Logf("k=%d: %d switches, %d hosts, %d entries programmed in %v; memory %d MB with the switches alone, %d MB with the controller and all tables",
		*scaleK, l.f.Switches(), l.f.Hosts(), want, took.Round(time.Millisecond), before, after)
	if *scaleK <= 8 {
		l.check(r)
	}
	r.stop()
}

// resident returns what the process holds of the machine's memory, in MB.
func resident(t *testing.T) int {
	t.Helper()
	runtime.GC()
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0 // not Linux
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmRSS:" {
			kb, err := strconv.Atoi(f[1])
			if err != nil {
				t.Fatal(err)
			}
			return kb >> 10
		}
	}
	return 0
}
