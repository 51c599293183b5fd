package workload

import (
	"math"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// TestFastForward: in a network where a message takes 10 us, a program takes as long with collectives skipped as
// without, and sends only what it must: a collective that has not been alike twice in succession, is disturbed, or has
// a rank that comes late.
func TestFastForward(t *testing.T) {
	const us = fabric.Microsecond
	const perWave = 4 * 6 // messages of a ring all-reduce of four ranks
	for _, c := range []struct {
		name    string
		disturb fabric.Time // 0: never
		late    int         // repetition in which rank 3 computes longer; -1: none
		waves   int         // that are sent, of 10
	}{
		{"calm", 0, -1, 2},
		{"disturbed", 340 * us, -1, 5}, // in the sixth, which takes 65 us as all: 325 to 390 us
		{"late", 0, 5, 7},              // it and all after it
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &Program{Ranks: make([][]Op, 4)}
			for rank := range p.Ranks {
				for i := range 10 {
					var after []int
					if i > 0 {
						after = []int{2*i - 1}
					}
					duration := 5 * us
					if i == c.late && rank == 3 {
						duration = 50 * us
					}
					p.Ranks[rank] = append(p.Ranks[rank], Op{Kind: Compute, Duration: duration, After: after}, Op{
						Kind: Collective, What: collective.AllReduce, Algorithm: collective.Ring,
						Group: []int{0, 1, 2, 3}, Bytes: 400, After: []int{2 * i},
					})
				}
			}
			want, all := carried(t, p, nil, 0)
			got, sent := carried(t, p, &NetworkState{
				Crosses: func(src, dst int) bool { return src != dst },
			}, c.disturb)
			if all != 10*perWave || sent != c.waves*perWave {
				t.Errorf("sent %d messages, all %d; want %d and %d", sent, all, c.waves*perWave, 10*perWave)
			}
			if got != want {
				t.Errorf("took %v, all %v", got, want)
			}
		})
	}
}

// carried carries a program out, and returns when it ended and how many messages it sent.
func carried(t *testing.T, p *Program, c *NetworkState, disturb fabric.Time) (now fabric.Time, sent int) {
	t.Helper()
	r, err := NewRunner(p)
	if err != nil {
		t.Fatal(err)
	}
	if c != nil {
		c.Disturbances = func() int64 {
			if disturb > 0 && now >= disturb {
				return 1
			}
			return 0
		}
		c.Until = func(now fabric.Time) fabric.Time {
			if now < disturb {
				return disturb
			}
			return math.MaxInt64
		}
		r.FastForward(*c)
	}
	type flying struct {
		at fabric.Time
		id collective.ID
	}
	var line []flying // in order: all take as long
	emit := func(s collective.Send) {
		sent++
		line = append(line, flying{now + 10*fabric.Microsecond, s.ID})
	}
	r.Start(0, emit)
	for !r.Finished() {
		at, computing := r.Deadline()
		switch {
		case len(line) > 0 && (!computing || line[0].at <= at):
			id := line[0].id
			now, line = line[0].at, line[1:]
			if err := r.Received(now, id, emit); err != nil {
				t.Fatal(err)
			}
			if err := r.Sent(now, id, emit); err != nil {
				t.Fatal(err)
			}
		case computing:
			now = at
			r.Tick(now, emit)
		default:
			t.Fatal("nothing is left to happen, and ranks are not done")
		}
	}
	return now, sent
}
