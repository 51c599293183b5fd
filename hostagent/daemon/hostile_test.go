package daemon

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/ethereal-fabric/ethereal/fabric/statepb"
)

// TestHostileController: a controller that speaks of a million links that are not there fills neither memory nor the
// state file nor the log, and a snapshot that is played again takes nothing back.
func TestHostileController(t *testing.T) {
	var log bytes.Buffer
	applied := 0
	w, err := NewWatcher(WatchConfig{
		Host: 3, Links: 32, Controllers: []string{"a"}, Log: slog.New(slog.NewTextHandler(&log, nil)),
		Apply: func(u *statepb.Update) { applied = max(applied, len(u.GetLinks())+len(u.GetSuspects())) },
		Dial:  func(string) (*grpc.ClientConn, error) { return nil, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	s := w.streams[0]
	w.receive(s, update("A", true, 1))
	for n := range uint32(1000) {
		u := update("A", false, uint64(n)+2)
		for i := range uint32(1000) {
			u.Links = append(u.Links, link(n*1000+i, false, 1))
			u.Suspects = append(u.Suspects, &statepb.Suspect{Link: ^u.Links[i].Link, Epoch: 1})
		}
		w.receive(s, u)
	}
	if got := len(s.view.GetLinks()) + len(s.view.GetSuspects()); got != 32 || applied != 32 {
		t.Errorf("%d words are kept and %d handed on, want those of the 32 links", got, applied)
	}
	if n := strings.Count(log.String(), "that do not exist"); n != 1 {
		t.Errorf("the log says so %d times", n)
	}
	before := s.view
	w.receive(s, update("A", true, 1)) // as it was recorded
	if diff := cmp.Diff(before, s.view, protocmp.Transform()); diff != "" {
		t.Errorf("an old snapshot, played again (-before +after):\n%s", diff)
	}
}
