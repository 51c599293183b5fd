package damping

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/ethereal-fabric/ethereal/fabric"
)

var port = Port{Node: 3, Port: 1}

func newDamper(t interface{ Fatal(...any) }) *Damper {
	d, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestFlap(t *testing.T) {
	d, now := newDamper(t), fabric.Time(0)
	for i := range 3 {
		if !d.State(now, port, false) {
			t.Fatalf("failure %d is not believed", i)
		}
		now = now + fabric.Second
		if got, want := d.State(now, port, true), i < 2; got != want {
			t.Fatalf("recovery %d: believed %v, want %v", i, got, want)
		}
		now = now + fabric.Second
	}
	if !d.Damped(port) || len(d.Tick(now)) != 0 {
		t.Fatal("the port is not held")
	}
	due, ok := d.Deadline()
	if wait := due - now; !ok || wait < 20*fabric.Second || wait > 31*fabric.Second {
		t.Fatalf("held for %v more, %v", wait, ok)
	}
	if evs := d.Tick(due); len(evs) != 1 || evs[0] != (Event{port, true}) {
		t.Fatalf("let go: %v", evs)
	}
	if _, ok := d.Deadline(); ok || d.Damped(port) {
		t.Error("still held")
	}
}

func TestSlowFlapsAreFree(t *testing.T) {
	d, now := newDamper(t), fabric.Time(0)
	for i := range 100 {
		if !d.State(now, port, false) || !d.State(now+fabric.Second, port, true) {
			t.Fatalf("failure %d is not believed, or its end", i)
		}
		now = now + 30*fabric.Second
	}
}

// TestDamper checks that downs are always believed, that what is believed ends
// up being what the port says, within the longest hold, and that a port that
// flaps for ever is let up rarely.
func TestDamper(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, now := newDamper(t), fabric.Time(0)
		believed, said, last := true, true, now
		tick := func() {
			for _, e := range d.Tick(now) {
				if e.Up != said {
					t.Fatalf("let go as %v though it says %v", e.Up, said)
				}
				believed = e.Up
			}
		}
		ups := 0
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			now = now + fabric.Time(rapid.IntRange(0, 3000).Draw(t, "ms"))*fabric.Millisecond
			tick()
			said = rapid.Bool().Draw(t, "up")
			ok := d.State(now, port, said)
			if !said && !ok {
				t.Fatal("a failure is not believed")
			}
			if ok {
				if said && !believed {
					ups++
				}
				believed = said
			}
			last = now
		}
		if most := 5 + int(last/(5*fabric.Second)); ups > most {
			t.Fatalf("up %d times, want at most %d", ups, most)
		}
		now = last + 61*fabric.Second
		tick()
		if believed != said {
			t.Fatalf("believed %v, says %v, %v after the last event", believed, said, now-last)
		}
	})
}

func TestConfig(t *testing.T) {
	for _, c := range []Config{{Suppress: 1}, {Reuse: -1}, {HalfLife: -1}, {Longest: -1}} {
		if _, err := New(c); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: %v, want ErrConfig", c, err)
		}
	}
	d, err := New(Config{Off: true})
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		if !d.State(fabric.Time(0), port, false) || !d.State(fabric.Time(0), port, true) {
			t.Fatal("damped though off")
		}
	}
}
