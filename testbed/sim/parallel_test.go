package sim

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// play is something to do on several networks that are to behave alike.
type play struct {
	spec   fabric.Spec
	config Config
	orders [][]order // per host
	cuts   []cut
	stopAt int // receipts in all after which the network is stopped; 0: never
	pause  fabric.Time
}

type cut struct {
	dir      LinkDir
	at, long fabric.Time
}

// actor is a station that does at a packet what hosts of a world do: it sends
// later, calls the world, and schedules global events.
type actor struct {
	*station
	w     *world
	noted *[]string
	stop  func(now fabric.Time)
	extra []order
}

func (a *actor) Receive(now fabric.Time, b []byte, tail int) {
	a.station.Receive(now, b, tail)
	last := a.got[len(a.got)-1]
	switch last.Seq % 5 {
	case 0:
		a.w.AtNode(a.id, now+fabric.Time(last.Seq)*777, a.more)
	case 1:
		a.w.AtNode(a.id, now, a.more)
	case 2:
		a.w.Serially(a.id, func(now fabric.Time) {
			*a.noted = append(*a.noted, fmt.Sprintf("%v: %d got %d", now, a.id, last.Seq))
			a.w.Note(a.id, "noted")
			a.w.At(now+fabric.Microsecond, func(now fabric.Time) {
				*a.noted = append(*a.noted, fmt.Sprintf("%v: %d a microsecond later", now, a.id))
				if d := a.w.SendDirection(a.id, 1); last.Seq%4 == 0 && !a.w.IsDown(d) {
					a.w.Cut(d)
					a.w.At(now, func(fabric.Time) { a.w.Restore(d) })
				}
			})
		})
	case 3: // when others do
		tick := (now/250_000 + 1) * 250_000
		for i := range 2 {
			a.w.AtNode(a.id, tick, func(fabric.Time) {
				a.w.Serially(a.id, func(now fabric.Time) {
					*a.noted = append(*a.noted, fmt.Sprintf("%v: %d ticks for %d, %d", now, a.id, last.Seq, i))
				})
			})
		}
	}
	a.w.Serially(a.id, a.stop)
}

// more sends one of the orders that were kept back.
func (a *actor) more(now fabric.Time) {
	if len(a.extra) == 0 {
		return
	}
	o := a.extra[0]
	o.at, a.extra = now, a.extra[1:]
	a.orders = append(a.orders, o)
	a.w.Serially(a.id, func(now fabric.Time) { *a.noted = append(*a.noted, fmt.Sprintf("%v: %d sends more", now, a.id)) })
	a.w.Wake(a.id)
}

// outcome is all that can be seen of a play.
type outcome struct {
	Hash     [32]byte
	Progress Progress
	Now      fabric.Time
	Totals   Totals
	Noted    []string
	Links    []LinkCounters
	Switches []SwitchCounters
	Got      [][]receipt
}

func (p *play) perform(t testing.TB, regions, cores int) outcome {
	t.Helper()
	var noted []string
	got := 0
	c := p.config
	c.Regions, c.Cores = regions, cores
	c.InOrder = func(fabric.Time) bool { return p.stopAt > 0 && p.stopAt-got < 50 }
	w := newWorld(t, p.spec, c)
	if regions > 1 && w.Regions() == 1 {
		t.Fatal("there is one region")
	}
	for i, s := range w.stations {
		s.orders = append(s.orders, p.orders[i][:len(p.orders[i])/2]...)
		a := &actor{station: s, w: w, noted: &noted, extra: p.orders[i][len(p.orders[i])/2:]}
		a.stop = func(fabric.Time) {
			if got++; got == p.stopAt {
				w.Stop()
			}
		}
		w.SetHost(s.id, a)
	}
	for _, c := range p.cuts {
		w.At(c.at, func(fabric.Time) { w.Cut(c.dir) })
		w.At(c.at+c.long, func(fabric.Time) { w.Restore(c.dir) })
	}
	for until := p.pause; until < 40*fabric.Microsecond && (p.stopAt == 0 || got < p.stopAt); until += p.pause {
		if err := w.Run(context.Background(), until); err != nil {
			t.Fatal(err)
		}
		w.checkConservation(t)
	}
	o := outcome{Hash: w.EventHash(), Progress: w.Progress(), Now: w.Now(), Totals: w.Totals(), Noted: noted}
	for d := range w.dirs {
		o.Links = append(o.Links, w.Counters(LinkDir(d)))
	}
	for i := range w.switches {
		o.Switches = append(o.Switches, w.SwitchCounters(fabric.NodeID(len(w.hosts)+i)))
	}
	for _, s := range w.stations {
		o.Got = append(o.Got, s.got)
	}
	return o
}

// Whatever happens, several regions, on one core or several, do what one does.
func TestCoresAgree(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := &play{
			spec: rapid.SampledFrom([]fabric.Spec{
				{Kind: fabric.KindFatTree, K: 4},
				{Kind: fabric.KindLeafSpine, ToRs: 3, Spines: 2, HostsPerToR: 2},
				{Kind: fabric.KindLeafSpine, ToRs: 5, Spines: 3, HostsPerToR: 1},
			}).Draw(rt, "spec"),
			config: Config{
				Buffer: fabric.Bytes(rapid.IntRange(10_000, 200_000).Draw(rt, "buffer")),
				Alpha:  rapid.SampledFrom([]float64{0.25, 1, 8}).Draw(rt, "alpha"),
			},
			pause: fabric.Time(rapid.IntRange(100_000, 20_000_000).Draw(rt, "pause")),
		}
		f, err := fabric.New(p.spec)
		if err != nil {
			rt.Fatal(err)
		}
		// Times on a coarse grid, so that many things happen at once.
		grid := fabric.Time(rapid.SampledFrom([]int{1, 1000, 250_000}).Draw(rt, "grid"))
		time := func(most int, name string) fabric.Time {
			return fabric.Time(rapid.IntRange(0, most).Draw(rt, name)) / grid * grid
		}
		sent := 0
		for range f.Hosts() {
			var orders []order
			at := fabric.Time(0)
			for range rapid.IntRange(0, 30).Draw(rt, "n") {
				at += time(400_000, "gap")
				orders = append(orders, order{
					at: at, dst: fabric.NodeID(rapid.IntRange(0, f.Hosts()-1).Draw(rt, "dst")),
					payload:  rapid.SampledFrom([]int{0, 1000, 9000}).Draw(rt, "payload"),
					up:       byte(rapid.IntRange(0, 1).Draw(rt, "up")),
					up2:      byte(rapid.IntRange(0, 1).Draw(rt, "up2")),
					priority: byte(rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(rt, "priority")),
					action:   byte(rapid.SampledFrom([]int{0, 0, 0, 0, 0, actDrop, actDropEgress, actClone, actRecirculate}).Draw(rt, "action")),
				})
			}
			sent += len(orders)
			p.orders = append(p.orders, orders)
		}
		for range rapid.IntRange(0, 6).Draw(rt, "cuts") {
			p.cuts = append(p.cuts, cut{
				LinkDir(rapid.IntRange(0, 2*f.Links()-1).Draw(rt, "dir")), time(6_000_000, "cut at"), time(3_000_000, "for"),
			})
		}
		if rapid.Bool().Draw(rt, "stop") {
			p.stopAt = rapid.IntRange(1, sent+1).Draw(rt, "stop at")
		}
		want := p.perform(t, 1, 1)
		for _, c := range []struct{ regions, cores int }{{2, 1}, {2, 2}, {8, 3}} {
			if diff := cmp.Diff(want, p.perform(t, c.regions, c.cores)); diff != "" {
				rt.Fatalf("%d regions, %d cores (-one, +several):\n%s", c.regions, c.cores, diff)
			}
		}
	})
}

// An event too soon for the other regions is refused.
func TestTooSoonForRegions(t *testing.T) {
	w := newWorld(t, oneByOne, Config{Regions: 2})
	w.AtNode(0, 0, func(fabric.Time) {
		w.Serially(0, func(now fabric.Time) { w.At(now+w.Lookahead()-1, func(fabric.Time) { t.Error("it ran") }) })
	})
	if err := w.Run(context.Background(), fabric.Millisecond); !errors.Is(err, ErrLookahead) {
		t.Errorf("%v", err)
	}
}

func TestSplit(t *testing.T) {
	for _, tt := range []struct {
		spec    fabric.Spec
		regions int
		want    []int // nodes per region
	}{
		{fabric.Spec{Kind: fabric.KindFatTree, K: 4}, 1, []int{36}},
		{fabric.Spec{Kind: fabric.KindFatTree, K: 4}, 0, []int{36}}, // small
		{fabric.Spec{Kind: fabric.KindFatTree, K: 4}, 2, []int{18, 18}},
		{fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 3, Spines: 2, HostsPerToR: 2}, 2, []int{7, 4}},
		{fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 3, Spines: 2, HostsPerToR: 2}, 8, []int{4, 4, 3}},
	} {
		w := newWorld(t, tt.spec, Config{Regions: tt.regions})
		got := make([]int, w.Regions())
		for i := range w.fab.Nodes() {
			got[w.Region(fabric.NodeID(i))]++
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%v in %d regions: %s", tt.spec.Kind, tt.regions, diff)
		}
	}
}
