package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/gopacket/pcapgo"
	"pgregory.net/rapid"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Whatever the fabric, the traffic, what the program does with packets and
// which links fail: every packet is accounted for, at any time.
func TestConservation(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		spec := rapid.SampledFrom([]fabric.Spec{
			{Kind: fabric.KindFatTree, K: 4},
			{Kind: fabric.KindLeafSpine, ToRs: 3, Spines: 2, HostsPerToR: 2},
		}).Draw(rt, "spec")
		w := newWorld(t, spec, Config{
			Buffer:  fabric.Bytes(rapid.IntRange(10_000, 200_000).Draw(rt, "buffer")),
			Alpha:   rapid.SampledFrom([]float64{0.25, 1, 8}).Draw(rt, "alpha"),
			Classes: rapid.IntRange(1, 8).Draw(rt, "classes"),
			Cell:    rapid.SampledFrom([]int{80, 256}).Draw(rt, "cell"),
		})
		sent := 0
		hosts := w.fab.Hosts()
		for _, s := range w.stations {
			n := rapid.IntRange(0, 20).Draw(rt, "n")
			sent += n
			at := fabric.Time(0)
			for range n {
				at += fabric.Time(rapid.IntRange(0, 400_000).Draw(rt, "gap"))
				s.orders = append(s.orders, order{
					at: at, dst: fabric.NodeID(rapid.IntRange(0, min(3, hosts-1)).Draw(rt, "dst")),
					payload:  rapid.IntRange(0, 9000).Draw(rt, "payload"),
					up:       byte(rapid.IntRange(0, 1).Draw(rt, "up")),
					up2:      byte(rapid.IntRange(0, 1).Draw(rt, "up2")),
					priority: byte(rapid.SampledFrom([]int{0, 0, 0, 1, 7}).Draw(rt, "priority")),
					action: byte(rapid.SampledFrom([]int{0, 0, 0, 0, 0, actDrop, actDropEgress, actClone,
						actRecirculate, actLoop, actCPU, actNoPort, actGrow}).Draw(rt, "action")),
				})
			}
		}
		for range rapid.IntRange(0, 6).Draw(rt, "cuts") {
			dir := LinkDir(rapid.IntRange(0, 2*w.fab.Links()-1).Draw(rt, "dir"))
			at := fabric.Time(rapid.IntRange(0, 6_000_000).Draw(rt, "cut at"))
			w.At(at, func(fabric.Time) { w.Cut(dir) })
			w.At(at+fabric.Time(rapid.IntRange(0, 3_000_000).Draw(rt, "for")), func(fabric.Time) { w.Restore(dir) })
		}
		for at := fabric.Time(0); at < 8_000_000; at += 777_777 {
			if err := w.Run(context.Background(), at); err != nil {
				rt.Fatal(err)
			}
			w.checkConservation(rt)
		}
		if err := w.Run(context.Background(), fabric.Millisecond); err != nil {
			rt.Fatal(err)
		}
		w.checkConservation(rt)
		if tot := w.Totals(); tot.InFlight != 0 {
			rt.Errorf("%d packets left", tot.InFlight)
		}
		for i := range w.switches {
			if w.switches[i].used != 0 {
				rt.Errorf("switch %d: %d bytes left in the buffer", i, w.switches[i].used)
			}
		}
		for _, s := range w.stations {
			if s.next != len(s.orders) {
				rt.Errorf("host %d sent %d of %d", s.id, s.next, len(s.orders))
			}
		}
	})
}

// busyWorld has crossing traffic, drops, clones and a cut.
func busyWorld(t testing.TB, c Config) *world {
	w := newWorld(t, fabric.Spec{Kind: fabric.KindFatTree, K: 4}, c)
	for i, s := range w.stations {
		for k := range 60 {
			s.orders = append(s.orders, order{
				dst: fabric.NodeID((i*7 + k*k) % 16), payload: 100 + 977*(k%10), up: byte(k % 2), up2: byte(i % 2),
				priority: byte(k % 5 / 4), action: []byte{0, 0, 0, 0, 0, 0, actClone, actRecirculate}[k%8],
			})
		}
	}
	w.At(3*fabric.Microsecond, func(fabric.Time) { w.Cut(Upward(20), Downward(20)) })
	return w
}

func TestEventHash(t *testing.T) {
	hash := func(change func(*world)) [32]byte {
		w := busyWorld(t, Config{Buffer: 20_000})
		change(w)
		w.run(t, Never)
		if w.Totals().Dropped[DropBuffer] == 0 || w.Totals().Lost == 0 {
			t.Fatalf("nothing was dropped or lost: %+v", w.Totals())
		}
		return w.EventHash()
	}
	base := hash(func(*world) {})
	if hash(func(w *world) {
		// Neither a look at the hash nor a pause in between changes anything.
		_ = w.Run(context.Background(), 2*fabric.Microsecond)
		w.EventHash()
	}) != base {
		t.Error("two runs differ")
	}
	// Nor does the order in which events of one time were pushed.
	if hash(func(w *world) {
		for i := range w.stations {
			w.Wake(fabric.NodeID(len(w.stations) - 1 - i))
		}
	}) != base {
		t.Error("the order of wake-ups matters")
	}
	for name, change := range map[string]func(*world){
		"a byte more":         func(w *world) { w.stations[3].orders[5].payload++ },
		"a header bit":        func(w *world) { w.stations[15].orders[59].up2 ^= 1 },
		"a picosecond":        func(w *world) { w.stations[3].orders[59].at = fabric.Millisecond },
		"another cut":         func(w *world) { w.At(fabric.Millisecond, func(fabric.Time) { w.Cut(3) }) },
		"a note":              func(w *world) { w.Note(-1, "x") },
		"an empty event more": func(w *world) { w.At(1, func(fabric.Time) {}) },
	} {
		if hash(change) == base {
			t.Errorf("%s makes no difference", name)
		}
	}
}

// Control functions of one time run in the order of At, before packets.
func TestControlOrder(t *testing.T) {
	w := newWorld(t, oneByOne, Config{})
	var got []string
	say := func(s string) func(fabric.Time) { return func(fabric.Time) { got = append(got, s) } }
	w.At(20, say("c"))
	w.At(10, say("a"))
	w.At(10, func(now fabric.Time) {
		got = append(got, "b")
		w.At(now-5, say("late"))
		w.At(now, say("same"))
	})
	w.At(30, func(fabric.Time) { w.Stop() })
	w.At(40, say("after the stop"))
	w.run(t, Never)
	if d := cmp.Diff([]string{"a", "b", "late", "same", "c"}, got); d != "" || w.Now() != 30 {
		t.Errorf("now %v: %s", w.Now(), d)
	}
	w.run(t, 35)
	if w.Now() != 35 || len(got) != 5 {
		t.Errorf("now %v, %v", w.Now(), got)
	}
	w.run(t, Never)
	if len(got) != 6 {
		t.Errorf("%v", got)
	}
}

func TestRunErrors(t *testing.T) {
	f, err := fabric.New(oneByOne)
	if err != nil {
		t.Fatal(err)
	}
	n, err := New(Config{Fabric: f})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Run(context.Background(), 1); !errors.Is(err, ErrNoSwitch) {
		t.Errorf("without nodes: %v", err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("enough")
	cancel(why)
	w := newWorld(t, oneByOne, Config{})
	if err := w.Run(ctx, Never); !errors.Is(err, why) {
		t.Errorf("cancelled: %v", err)
	}
	for _, e := range []Endpoint{
		fixedEndpoint{Frame{}, 0, false},
		fixedEndpoint{Frame{Header: MaxHeader + 1}, 0, true},
		fixedEndpoint{Frame{Header: 0, Payload: 5}, 0, true},
		fixedEndpoint{Frame{Header: 10, Payload: -1}, 0, true},
		fixedEndpoint{Frame{Header: 10, Payload: MaxPacket}, 0, true},
	} {
		w := newWorld(t, oneByOne, Config{})
		w.SetHost(1, e)
		if err := w.Run(context.Background(), 1); !errors.Is(err, ErrEndpoint) || !strings.Contains(err.Error(), "h1") {
			t.Errorf("%v: %v", e, err)
		}
	}
	for _, c := range []Config{{}, {Fabric: f, Buffer: -1}, {Fabric: f, Alpha: -1}, {Fabric: f, Classes: 9},
		{Fabric: f, Cell: -1}, {Fabric: f, Overhead: -100}} {
		if _, err := New(c); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

type fixedEndpoint struct {
	f    Frame
	wake fabric.Time
	ok   bool
}

func (e fixedEndpoint) Next(fabric.Time, []byte) (Frame, fabric.Time, bool) { return e.f, e.wake, e.ok }
func (e fixedEndpoint) Receive(fabric.Time, []byte, int)                    {}

// TestPortThatIsNotThere: a packet for it goes through egress, as on a switch, and is dropped then.
func TestPortThatIsNotThere(t *testing.T) {
	w := newWorld(t, oneByOne, Config{})
	w.stations[0].orders = []order{{dst: 1, payload: 100, action: actNoPort}}
	passed := 0
	w.routers[0].onEgress = func(uint32, QueueState) { passed++ }
	w.run(t, Never)
	if drops := w.SwitchCounters(w.fab.ToRID(0)).Drops; passed != 1 || drops[DropNoPort] != 1 || drops[DropPipeline] != 0 {
		t.Errorf("%d packets went through egress, drops %v", passed, drops)
	}
}

func TestInjectAndCPU(t *testing.T) {
	w := newWorld(t, oneByOne, Config{})
	w.stations[0].orders = []order{{dst: 1, payload: 100, action: actCPU}}
	packet := make([]byte, fakeHeader)
	packet[fakeDst+3] = 1
	w.At(100, func(fabric.Time) {
		if err := w.Inject(w.fab.ToRID(1), EventPort, packet, 1000); err != nil {
			t.Error(err)
		}
		for _, err := range []error{
			w.Inject(0, 1, packet, 100), w.Inject(w.fab.ToRID(0), 1, packet, 10),
			w.Inject(w.fab.ToRID(0), 1, make([]byte, MaxHeader+1), 1000), w.Inject(99, 1, packet, 100),
		} {
			if !errors.Is(err, ErrPacket) {
				t.Errorf("error %v", err)
			}
		}
	})
	w.run(t, Never)
	if d := cmp.Diff([]receipt{{100 + 20_000 + 500_000, 0, 0, 1000 - fakeHeader}}, w.stations[1].got); d != "" {
		t.Error(d)
	}
	if tot := w.Totals(); tot.ToCPU != 1 || tot.Created != 2 {
		t.Errorf("%+v", tot)
	}
}

// pacer sends a packet a microsecond and has a timer a millisecond off, which
// every packet restarts.
type pacer struct {
	station
	sent fabric.Time
}

func (p *pacer) Next(now fabric.Time, b []byte) (Frame, fabric.Time, bool) {
	p.asked++
	if p.next == 1000 {
		if due := p.sent + fabric.Millisecond; now < due {
			return Frame{}, due, false
		}
		return Frame{}, Never, false
	}
	if due := fabric.Time(p.next) * fabric.Microsecond; now < due {
		return Frame{}, due, false
	}
	p.sent = now
	p.orders = []order{{dst: 1}}
	p.next++
	clear(b[:fakeHeader])
	b[fakeDst+3] = 1
	return Frame{Header: fakeHeader}, 0, true
}

// Wake-ups do not pile up, however often an endpoint changes its mind.
func TestWakeUps(t *testing.T) {
	w := newWorld(t, oneByOne, Config{})
	p := &pacer{}
	w.SetHost(0, p)
	for at := fabric.Time(0); at < 2*fabric.Millisecond; at += fabric.Microsecond / 2 {
		if err := w.Run(context.Background(), at); err != nil {
			t.Fatal(err)
		}
		if k := len(w.hosts[0].wakes); k > 3 {
			t.Fatalf("%d wake-ups pending at %v", k, at)
		}
		w.Wake(0)
	}
	if len(w.stations[1].got) != 1000 {
		t.Errorf("%d packets arrived", len(w.stations[1].got))
	}
}

func TestTap(t *testing.T) {
	w := newWorld(t, oneByOne, Config{})
	var whole, cut bytes.Buffer
	finish := func(frame []byte, payload int) {
		if len(frame) != fakeHeader+payload+4 {
			t.Errorf("frame of %d, payload %d", len(frame), payload)
		}
		frame[len(frame)-1] = 0xAB
	}
	if err := w.Tap(0, &whole, TapConfig{Finish: finish}); err != nil {
		t.Fatal(err)
	}
	if err := w.Tap(1, &cut, TapConfig{SnapLen: 64, Finish: finish}); err != nil {
		t.Fatal(err)
	}
	w.stations[0].orders = []order{{at: 1_234_567, dst: 1, payload: 9000}, {dst: 1}}
	w.stations[1].orders = []order{{at: 50, dst: 0, payload: 10}}
	w.run(t, Never)
	for _, tc := range []struct {
		name string
		file *bytes.Buffer
		want []string
	}{
		// h1's packet reaches h0's ToR after three links.
		{"whole", &whole, []string{"1234 9062 9062 ab", "1415 62 62 ab", "1504 72 72 ab"}},
		{"cut", &cut, []string{"0 64 72 00", "3278 64 9062 00", "3459 62 62 ab"}},
	} {
		r, err := pcapgo.NewReader(tc.file)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for {
			b, ci, err := r.ReadPacketData()
			if err != nil {
				break
			}
			got = append(got, strings.TrimSpace(strings.Join([]string{
				itoa(ci.Timestamp.UnixNano()), itoa(int64(ci.CaptureLength)), itoa(int64(ci.Length)), hex(b[len(b)-1])}, " ")))
		}
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%s: %s", tc.name, d)
		}
	}
	w = newWorld(t, oneByOne, Config{})
	w.stations[0].orders = []order{{dst: 1, payload: 9000}}
	if err := w.Tap(0, new(fullDisk), TapConfig{}); err != nil {
		t.Fatal(err)
	}
	if err := w.Run(context.Background(), Never); err == nil || !strings.Contains(err.Error(), iotest.ErrTimeout.Error()) {
		t.Errorf("a full disk: %v", err)
	}
}

// fullDisk has room for a file's header.
type fullDisk struct{ used bool }

func (d *fullDisk) Write(b []byte) (int, error) {
	if d.used {
		return 0, iotest.ErrTimeout
	}
	d.used = true
	return len(b), nil
}

func itoa(n int64) string { b, _ := json.Marshal(n); return string(b) }

func hex(b byte) string { return string("0123456789abcdef"[b>>4]) + string("0123456789abcdef"[b&15]) }

func TestJSONL(t *testing.T) {
	f, err := fabric.New(oneByOne)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	j := NewJSONL(&out, f)
	w := newWorld(t, oneByOne, Config{Tracer: j})
	w.stations[0].orders = []order{{dst: 1, payload: 100, action: actDrop}}
	w.At(5, func(fabric.Time) { w.Note(0, "flip \"1\"\n") })
	w.At(900_000, func(fabric.Time) { w.Cut(Downward(1)) })
	w.run(t, Never)
	if err := j.Flush(); err != nil {
		t.Fatal(err)
	}
	const want = `{"at_ps":0,"event":"send","node":"h0","link":"h0>tor0","class":0,"length":162,"payload":100}
{"at_ps":5,"event":"note","node":"h0","text":"flip \"1\"\u000a"}
{"at_ps":503240,"event":"drop","node":"tor0","reason":"pipeline","class":0,"length":162,"payload":100}
{"at_ps":900000,"event":"cut","node":"tor1","link":"tor1>h1"}
`
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Error(d)
	}
	for line := range strings.SplitSeq(strings.TrimSpace(out.String()), "\n") {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %s", line)
		}
	}
}
