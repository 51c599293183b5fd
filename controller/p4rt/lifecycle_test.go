package p4rt

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"pgregory.net/rapid"

	"github.com/ethereal-fabric/ethereal/controller/backoff"
)

func TestAbove(t *testing.T) {
	const most = ^uint64(0)
	for _, tt := range []struct {
		e    ElectionID
		own  uint64
		want ElectionID
	}{
		{ElectionID{}, 1, ElectionID{0, 1}},
		{ElectionID{0, 2}, 1, ElectionID{1, 1}},
		{ElectionID{0, 1}, 1, ElectionID{1, 1}},
		{ElectionID{5, 1}, 2, ElectionID{5, 2}},
		{ElectionID{most, 1}, 1, ElectionID{most, most}},
	} {
		if got := bidAbove(tt.e, tt.own); got != tt.want {
			t.Errorf("above %v for %d: %v, want %v", tt.e, tt.own, got, tt.want)
		}
	}
}

func newLife(own uint64) *Lifecycle {
	return NewLifecycle(own, backoff.Policy{First: time.Second, Most: 8 * time.Second, Factor: 2}, func() float64 { return 0 })
}

// TestLifecycle goes through a session's life, event by event.
func TestLifecycle(t *testing.T) {
	now := time.Unix(0, 0)
	l := newLife(7)
	want := func(what string, step Step, wantStep Step, phase Phase) {
		t.Helper()
		if step != wantStep || l.Phase() != phase {
			t.Fatalf("%s: step %v, phase %v; want %v, %v", what, step, l.Phase(), wantStep, phase)
		}
	}
	want("start", l.Tick(now), Open, Opening)
	want("another is primary", l.Arbitrated(codes.AlreadyExists, ElectionID{3, 9}), Idle, Backup)
	want("it left", l.Arbitrated(codes.NotFound, ElectionID{3, 9}), Bid, Bidding)
	if l.Bid() != (ElectionID{4, 7}) {
		t.Fatalf("bid %v", l.Bid())
	}
	want("promoted", l.Arbitrated(codes.OK, ElectionID{4, 7}), Check, Checking)
	want("other pipeline", l.PipelineChecked(false), Push, Pushing)
	want("said again", l.Arbitrated(codes.OK, ElectionID{4, 7}), Push, Pushing)
	want("pushed", l.PipelinePushed(), Read, Reading)
	l.TablesRead()
	want("serving", l.Tick(now), Idle, Serving)
	l.UpdateRefused(now)
	want("refused", l.Tick(now), Idle, Pausing)
	want("after a while", l.Tick(now.Add(time.Second)), Read, Reading)
	l.TablesRead()
	want("demoted", l.Arbitrated(codes.AlreadyExists, ElectionID{9, 9}), Idle, Backup)
	l.StreamEnded(now, codes.Unavailable)
	want("lost", l.Tick(now), Idle, Waiting)
	for i, wait := range []time.Duration{1, 2, 4, 8, 8} {
		due, ok := l.Due()
		if !ok || due.Sub(now) != wait*time.Second {
			t.Fatalf("failure %d: due in %v, want %v s", i, due.Sub(now), wait)
		}
		now = due
		want("again", l.Tick(now), Open, Opening)
		l.StreamEnded(now, codes.Unavailable)
	}
	if l.Bid() != (ElectionID{4, 7}) {
		t.Errorf("bid %v after losses", l.Bid())
	}
	now, _ = l.Due()
	want("again", l.Tick(now), Open, Opening)
	l.StreamEnded(now, codes.InvalidArgument)
	if l.Bid() != (ElectionID{5, 7}) {
		t.Errorf("bid %v after it was found in use", l.Bid())
	}
}

// TestLifecycleBids checks that bids never fall and, after word that nobody is
// primary, are above everything there was.
func TestLifecycleBids(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		own := rapid.Uint64Range(1, 3).Draw(t, "own")
		l, now := newLife(own), time.Unix(0, 0)
		for range rapid.IntRange(1, 30).Draw(t, "events") {
			before := l.Bid()
			highest := ElectionID{rapid.Uint64Range(0, 5).Draw(t, "high"), rapid.Uint64Range(0, 3).Draw(t, "low")}
			switch rapid.IntRange(0, 3).Draw(t, "event") {
			case 0:
				l.StreamEnded(now, rapid.SampledFrom([]codes.Code{codes.Unavailable, codes.InvalidArgument}).Draw(t, "code"))
			case 1:
				now = now.Add(10 * time.Second)
				l.Tick(now)
			case 2:
				l.Arbitrated(codes.AlreadyExists, highest)
				if l.Phase().Primary() {
					t.Fatal("primary though another is")
				}
			case 3:
				l.Arbitrated(codes.NotFound, highest)
				if l.Bid().Compare(highest) <= 0 {
					t.Fatalf("bid %v, not above %v", l.Bid(), highest)
				}
			}
			if l.Bid().Compare(before) < 0 || l.Bid().Low != own {
				t.Fatalf("bid %v after %v", l.Bid(), before)
			}
		}
	})
}
