package shell

import (
	"testing"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
)

// TestLongRun has a shell run for years, busy and idle, by a clock that has shown years
// before: a path that timed out is left, and used again when that is forgotten.
func TestLongRun(t *testing.T) {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 2, HostsPerToR: 1})
	if err != nil {
		t.Fatal(err)
	}
	now := 1000 * day
	var qp hostagent.QP
	flips := 0
	s, err := New(Config{Agent: hostagent.Config{Fabric: f}, Now: func() time.Duration { return now }}, func(r hostagent.Ready) error {
		for _, p := range r.Open {
			qp = p.QP
		}
		flips += len(r.Flip)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	do := func(want int, call func(core *hostagent.Core, at fabric.Time) error) {
		t.Helper()
		flips = 0
		if err := s.Do(func(core *hostagent.Core, at fabric.Time) error {
			if at < 0 || at > fabricTime(day) {
				t.Errorf("the core gets the time %v", at)
			}
			return call(core, at)
		}); err != nil {
			t.Fatal(err)
		}
		if flips != want {
			t.Errorf("%v: %d flips, want %d", now, flips, want)
		}
	}
	tick := func(core *hostagent.Core, at fabric.Time) error { core.Tick(at); return nil }
	do(0, func(core *hostagent.Core, at fabric.Time) error {
		return core.Post(at, []hostagent.Flow{{Dst: 1, Bytes: 1 << 20}})
	})
	for _, idle := range []time.Duration{time.Hour, 30 * day, 105 * day, 107 * day, 212 * day, 214 * day, 1000 * day} {
		now += idle
		do(1, func(core *hostagent.Core, at fabric.Time) error { core.Timeout(at, qp); return nil })
		now += time.Duration(hostagent.DefaultFailedPathMemory/fabric.Nanosecond) - 1
		do(0, tick)
		now += time.Duration(hostagent.DefaultFailedPathMemory / fabric.Nanosecond)
		do(1, tick)
		for range 100 {
			now += 30 * day
			do(0, tick)
		}
	}
}
