package sim

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// A cut loses what is on the wire, what is being sent and what is sent later,
// in the directions that are cut and no other.
func TestCut(t *testing.T) {
	const tx = 20 * wire
	// The uplink carries packet i from (i+1)*tx+500,000 on, and delivers it tx
	// + 500,000 later. The cut finds packet 9 being sent and 8, 7 and 6 under
	// way: 500,000 is 2.76 tx.
	cut := fabric.Time(10*tx + 500_000 + tx/2)
	restore := cut + 10*tx
	for _, tc := range []struct {
		name               string
		dirs               func(l fabric.LinkID) []LinkDir
		forwardLost, other int64
	}{
		{"both", func(l fabric.LinkID) []LinkDir { return []LinkDir{Upward(l), Downward(l)} }, 14, 14},
		{"up", func(l fabric.LinkID) []LinkDir { return []LinkDir{Upward(l)} }, 14, 0},
		{"down", func(l fabric.LinkID) []LinkDir { return []LinkDir{Downward(l)} }, 0, 14},
	} {
		w := newWorld(t, oneByOne, Config{})
		link, err := w.fab.LinkByName("tor0-spine0")
		if err != nil {
			t.Fatal(err)
		}
		for range 30 {
			w.stations[0].orders = append(w.stations[0].orders, order{dst: 1, payload: 9000})
			// The other way, so that they use the link at the same times.
			w.stations[1].orders = append(w.stations[1].orders, order{at: -1, dst: 0, payload: 9000})
		}
		w.At(cut, func(fabric.Time) { w.Cut(tc.dirs(link)...); w.Cut(tc.dirs(link)...) })
		w.At(restore, func(fabric.Time) { w.Restore(tc.dirs(link)...); w.Restore(tc.dirs(link)...) })
		w.run(t, Never)

		if got := int64(30 - len(w.stations[1].got)); got != tc.forwardLost {
			t.Errorf("%s: %d packets lost on the way up, want %d", tc.name, got, tc.forwardLost)
		}
		c := w.Counters(Upward(link))
		want := LinkCounters{DataPackets: 30, DataPayload: 270_000, Bytes: 30 * wire, Arrived: 30 - tc.forwardLost}
		if tc.forwardLost > 0 {
			// 6 to 9 at once, 10 to 19 when they are sent.
			want.Lost, want.LostData, want.LostPayload = 14, 14, 14*9000
			want.FirstLost, want.LastLost = cut, 20*tx+500_000
		}
		if d := cmp.Diff(want, c); d != "" {
			t.Errorf("%s: %s", tc.name, d)
		}
		// The other direction is offset: its packets come from the far ToR,
		// over one more link.
		if c := w.Counters(Downward(link)); (c.Lost > 0) != (tc.other > 0) {
			t.Errorf("%s: the other way lost %d", tc.name, c.Lost)
		}
	}
}

// A link that is restored while the arrival event of a lost packet is pending
// delivers what is sent afterwards when it should.
func TestRestoreWithStaleArrival(t *testing.T) {
	w := newWorld(t, oneByOne, Config{})
	w.stations[0].orders = []order{{dst: 1, payload: 9000}, {at: 300_000, dst: 1, payload: 10}, {at: 5_000_000, dst: 1, payload: 10}}
	w.At(250_000, func(fabric.Time) { w.Cut(Upward(0)) })
	w.At(250_000, func(fabric.Time) { w.Restore(Upward(0)) })
	w.run(t, Never)
	const short = 72 * 20
	want := []receipt{
		{300_000 + 4*(short+500_000), 0, 1, 14},
		{5_000_000 + 4*(short+500_000), 0, 2, 14},
	}
	if d := cmp.Diff(want, w.stations[1].got); d != "" {
		t.Error(d)
	}
	if w.IsDown(Upward(0)) || w.Counters(Upward(0)).Lost != 1 {
		t.Error("not restored, or not one lost")
	}
}
