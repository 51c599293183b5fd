package process

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent/daemon"
	"github.com/ethereal-fabric/ethereal/internal/durable/durabletest"
)

// TestAgentUnderDiskFaults: an agent whose disk fails says so once, goes on with what it knows, and keeps it as soon as
// the disk takes it.
func TestAgentUnderDiskFaults(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent", "state.json")
	var log bytes.Buffer
	s, err := New(Config{Host: 3, StateFile: path, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	for epoch := range uint64(5) { // there is no such folder
		if s.KeepLinks(&statepb.Update{Instance: "a", Snapshot: true, Epoch: epoch + 1}) == nil {
			t.Error("kept where no folder is")
		}
	}
	if n := strings.Count(log.String(), "\n"); !s.unkept || n != 1 || !strings.Contains(log.String(), "no such file") {
		t.Errorf("unkept %v; the log: %s", s.unkept, log.String())
	}
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.keep(func(*daemon.State) {}); err != nil {
		t.Error(err)
	}
	again, err := daemon.ReadState(path, 3)
	if err != nil || again.Known().GetEpoch() != 5 || s.unkept || !strings.Contains(log.String(), "kept again") {
		t.Errorf("unkept %v, read %v, %v; the log: %s", s.unkept, again.Known(), err, log.String())
	}
}

// TestHeartbeats: a controller's heartbeats reach the agent, which then knows that somebody could confirm a quench, and
// are not written down.
func TestHeartbeats(t *testing.T) {
	var got []*statepb.Update
	words := make(chan *statepb.Update, 1)
	take := applyUpdates(func(u *statepb.Update) error { got = append(got, u); return nil }, nil, words)
	take(&statepb.Update{Instance: "a", Epoch: 1, Snapshot: true})
	<-words
	take(&statepb.Update{Instance: "a", Epoch: 1, Heartbeat: true})
	if len(got) != 2 || !got[1].GetHeartbeat() || len(words) != 0 {
		t.Errorf("the agent has %v, and %d are to be written", got, len(words))
	}
}

// TestAgentSyncFaults: each operation of writing the state fails in each way, the syncing of the file and of its folder
// included. A restart after it finds the old state or the new one; what is not known to last is written again, and
// lasts when the agent has no error.
func TestAgentSyncFaults(t *testing.T) {
	const path = "agent/state.json"
	tried := 0
	for _, fault := range durabletest.Faults() {
		for at := 0; ; at++ {
			disk := durabletest.New()
			a := &Agent{Config: Config{Host: 3, StateFile: path, Log: slog.New(slog.DiscardHandler)}, kept: &daemon.State{Version: 2, Host: 3}, disk: disk}
			update := func(epoch uint64) error {
				return a.KeepLinks(&statepb.Update{Instance: "a", Snapshot: true, Epoch: epoch})
			}
			if err := update(1); err != nil {
				t.Fatal(err)
			}
			begin := len(disk.Ops)
			disk.At, disk.Fault = begin+at, fault
			failed := update(2)
			if len(disk.Ops) <= begin+at {
				break // it has no more operations
			}
			tried++
			if failed == nil && fault != durabletest.None {
				t.Errorf("%v at operation %d, %s: no error", fault, at, disk.Ops[begin+at])
			}
			check := func(epochs ...string) {
				t.Helper()
				for _, got := range disk.Restarts(path) {
					if !slices.ContainsFunc(epochs, func(e string) bool { return bytes.Contains(got, []byte(`"epoch":`+e+",")) }) {
						t.Errorf("%v at operation %d, %s: a restart may find %q", fault, at, disk.Ops[begin+at], got)
					}
				}
			}
			check("1", "2")
			if disk.Fault = durabletest.None; fault == durabletest.PowerLoss {
				continue
			}
			if err := a.keep(func(*daemon.State) {}); err != nil {
				t.Error(err)
			}
			check("2")
			if names := disk.Names(); len(names) != 1 {
				t.Errorf("%v at operation %d leaves %v", fault, at, names)
			}
		}
	}
	t.Logf("%d faults tried", tried)
}
