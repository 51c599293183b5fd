package process

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent/daemon"
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
		s.KeepLinks(&statepb.Update{Instance: "a", Snapshot: true, Epoch: epoch + 1})
	}
	if n := strings.Count(log.String(), "\n"); !s.unkept || n != 1 || !strings.Contains(log.String(), "no such file") {
		t.Errorf("unkept %v; the log: %s", s.unkept, log.String())
	}
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	s.keep(func(*daemon.State) {})
	again, err := daemon.ReadState(path, 3)
	if err != nil || again.Known().GetEpoch() != 5 || s.unkept || !strings.Contains(log.String(), "kept again") {
		t.Errorf("unkept %v, read %v, %v; the log: %s", s.unkept, again.Known(), err, log.String())
	}
}

// TestHeartbeats: a controller's heartbeats reach the agent, which then knows that somebody could confirm a quench, and are
// not written down.
func TestHeartbeats(t *testing.T) {
	var got []*statepb.Update
	words := make(chan *statepb.Update, 1)
	take := apply(func(u *statepb.Update) error { got = append(got, u); return nil }, nil, words)
	take(&statepb.Update{Instance: "a", Epoch: 1, Snapshot: true})
	<-words
	take(&statepb.Update{Instance: "a", Epoch: 1, Heartbeat: true})
	if len(got) != 2 || !got[1].GetHeartbeat() || len(words) != 0 {
		t.Errorf("the agent has %v, and %d are to be written", got, len(words))
	}
}
