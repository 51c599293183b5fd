package coordinator

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/ethereal-fabric/ethereal/testbed/hostproto"
)

// TestReadings: whatever way takes how long, a reading is right to within what it says; and so are times that are
// turned by two of them, of a clock that runs up to 500 ppm faster or slower.
func TestReadings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ahead := rapid.Int64Range(-1e15, 1e15).Draw(t, "ahead")
		ppm := rapid.Float64Range(-500, 500).Draw(t, "ppm")
		there := func(at int64) int64 { return at + ahead + int64(ppm*float64(at)/1e6) }
		read := func(asked int64, name string) reading {
			way, back := rapid.Int64Range(0, 1e6).Draw(t, name+" way"), rapid.Int64Range(0, 1e6).Draw(t, name+" back")
			return sample(asked, asked+way+back, there(asked+way)).same()
		}
		c := clock{before: read(0, "before"), after: read(10e9, "after")}
		for _, r := range []reading{c.before, c.after} {
			if is := there(r.at) - r.at; math.Abs(float64(r.ahead-is)) > float64(r.within)+1000 {
				t.Fatalf("%+v; it is %d ahead", r, is)
			}
		}
		at := rapid.Int64Range(2e6, 10e9).Draw(t, "at")
		doubt := float64(2*(c.before.within+c.after.within) + 2000)
		if got := c.here(there(at)); math.Abs(float64(got-at)) > doubt {
			t.Fatalf("%d there is %d here, not %d, by %+v", there(at), got, at, c)
		}
		// What was turned before the drift was known comes out the same.
		s := &Session{clockOf: []*clock{&c}}
		if got, want := s.correctTime(0, there(at)-c.before.ahead), c.here(there(at)); got != want {
			t.Fatalf("%d; want %d", got, want)
		}
	})
}

// TestSameClock: a clock that cannot be distinguished from the local one is taken for it, to the nanosecond, and does
// not drift.
func TestSameClock(t *testing.T) {
	c := clock{before: sample(0, 900, 100).same(), after: sample(1e9, 1e9+2000, 1e9+1999).same()}
	if at := c.here(5e8); at != 5e8 || c.drift() != 0 {
		t.Errorf("%+v: %d", c, at)
	}
	if c := moreExact(sample(0, 900, 100), sample(0, 90, 7000)); c.within != 45 || c.ahead != 6955 {
		t.Errorf("%+v", c)
	}
}

// TestInOrder: a clock that is read a little wrong does not have messages arrive after they were acknowledged, or
// before they were posted.
func TestInOrder(t *testing.T) {
	event := func(kind hostproto.Kind, rank, peer int, at int64) hostEvent {
		return hostEvent{rank, hostproto.Event{Kind: kind, At: at, ID: 7, Peer: peer}}
	}
	all := []hostEvent{
		event(hostproto.Done, 0, 0, 90), event(hostproto.Sent, 0, 1, 90),
		event(hostproto.Received, 1, 0, 95), event(hostproto.Posted, 0, 1, 10),
		event(hostproto.Sent, 1, 0, 80),
		event(hostproto.Received, 0, 1, 5), event(hostproto.Posted, 1, 0, 20), event(hostproto.Flip, 0, 0, 30),
	}
	inOrder(all)
	var got []string
	for _, e := range all {
		got = append(got, fmt.Sprintf("%d %s %d", e.At, e.Kind, e.Rank))
	}
	want := []string{"10 posted 0", "20 posted 1", "20 received 0", "30 flip 0",
		"80 sent 1", "90 received 1", "90 sent 0", "90 done 0"}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}
