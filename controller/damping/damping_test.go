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
			ok := d.Reported(now, port, said)
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
		if !d.Reported(fabric.Time(0), port, false) || !d.Reported(fabric.Time(0), port, true) {
			t.Fatal("damped though off")
		}
	}
}
