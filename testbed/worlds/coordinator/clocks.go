package coordinator

import (
	"context"
	"fmt"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/hostproto"
	"github.com/ethereal-fabric/ethereal/testbed/report"
)

// Hosts on other machines have other clocks, days apart from the local one. Each is asked for its time before a run
// and after it. A host receives the start in its own time; the times of its events are converted to the local
// clock.

// reading is a clock's difference from the local one, in ns.
type reading struct {
	at     int64 // local time of the reading
	ahead  int64
	within int64 // error of ahead
}

// clock is the common clock of some hosts.
type clock struct {
	ranks         []int
	before, after reading
}

// clockSamples is the number of requests per reading; the fastest answer counts.
const clockSamples = 16

// sample returns the reading in an answer with these times of request and receipt: it was made at some moment
// between, so the middle is wrong by at most half the difference.
func sample(sent, received, remote int64) reading {
	middle := sent + (received-sent)/2
	return reading{at: middle, ahead: remote - middle, within: (received - sent + 1) / 2}
}

// moreExact returns the more exact of two readings.
func moreExact(a, b reading) reading {
	if b.within < a.within {
		return b
	}
	return a
}

// same returns the local clock's reading if the two cannot be distinguished.
func (r reading) same() reading {
	if off := max(r.ahead, -r.ahead); off <= r.within {
		r.ahead, r.within = 0, r.within+off
	}
	return r
}

// drift returns the relative speed difference to the local clock; 0 if the readings cannot show it.
func (c *clock) drift() float64 {
	moved, apart := c.after.ahead-c.before.ahead, c.after.at-c.before.at
	if doubt := c.before.within + c.after.within; apart <= 0 || moved >= -doubt && moved <= doubt {
		return 0
	}
	return float64(moved) / float64(apart)
}

// here converts a time of the clock to the local clock.
func (c *clock) here(at int64) int64 {
	at -= c.before.ahead
	drift := c.drift()
	if drift == 0 {
		return at
	}
	return at - int64(drift/(1+drift)*float64(at-c.before.at))
}

// readClocks finds all clocks, and reads each.
func (s *Session) readClocks(ctx context.Context, now func() int64) error {
	replies, err := s.ask(ctx, func(int) hostproto.Request { return hostproto.Request{Clock: true} })
	if err != nil {
		return fmt.Errorf("the hosts' clocks: %w", err)
	}
	s.clocks, s.clockOf = nil, make([]*clock, len(s.hosts))
	named := map[string]*clock{}
	for rank, r := range replies {
		if r.Clock == nil {
			return fmt.Errorf("coordinator: %s: no time in the answer", s.hosts[rank].path)
		}
		name := r.Clock.Of
		if name == "" {
			name = strconv.Itoa(rank)
		}
		c := named[name]
		if c == nil {
			c = &clock{}
			named[name] = c
			s.clocks = append(s.clocks, c)
		}
		c.ranks = append(c.ranks, rank)
		s.clockOf[rank] = c
	}
	return s.eachClock(ctx, now, func(c *clock, r reading) { c.before, c.after = r, r })
}

// readClocksAgain reads the clocks once more after a run, and corrects its events' times for drift.
func (s *Session) readClocksAgain(ctx context.Context, now func() int64) error {
	drifted := false
	err := s.eachClock(ctx, now, func(c *clock, r reading) {
		c.after = r
		drifted = drifted || c.drift() != 0
	})
	if err != nil || !drifted {
		return err
	}
	for rank, at := range s.ledger.done {
		s.ledger.done[rank] = s.correctTime(rank, at)
	}
	l := s.ledger
	for _, events := range [][]hostEvent{l.flips, l.quenches, l.timeouts, l.pushes, s.keptEvents} {
		for i := range events {
			e := &events[i]
			if e.At = s.correctTime(e.Rank, e.At); e.First != 0 {
				e.First = s.correctTime(e.Rank, e.First)
			}
		}
	}
	return nil
}

// correctTime corrects a time that was converted before the drift was known.
func (s *Session) correctTime(rank int, at int64) int64 {
	c := s.clockOf[rank]
	return c.here(at + c.before.ahead)
}

// eachClock calls take with a reading of each clock.
func (s *Session) eachClock(ctx context.Context, now func() int64, take func(*clock, reading)) error {
	readings := make([]reading, len(s.clocks))
	err := s.processEventsDuring(func() error {
		var g errgroup.Group
		for i, c := range s.clocks {
			g.Go(func() (err error) {
				readings[i], err = s.read(ctx, c, now)
				return err
			})
		}
		return g.Wait()
	})
	if err != nil {
		return fmt.Errorf("the hosts' clocks: %w", err)
	}
	for i, c := range s.clocks {
		take(c, readings[i])
	}
	return nil
}

// read reads a clock. It asks its hosts in turn, since one may be busy.
func (s *Session) read(ctx context.Context, c *clock, now func() int64) (best reading, err error) {
	for i := range clockSamples {
		asked := now()
		r, err := s.hosts[c.ranks[i%len(c.ranks)]].Ask(ctx, hostproto.Request{Clock: true})
		if err != nil {
			return best, err
		}
		received := now()
		if r.Clock == nil {
			return best, fmt.Errorf("coordinator: no time in the answer")
		}
		if x := sample(asked, received, r.Clock.Now); i == 0 {
			best = x
		} else {
			best = moreExact(best, x)
		}
	}
	return best.same(), nil
}

// addClocks adds to the timeline the hosts whose times were converted, and the error.
func (r *sessionRun) addClocks(out *report.Result) {
	f := r.run.Fabric
	for _, c := range r.s.clocks {
		if c.before.ahead == 0 && c.after.ahead == 0 {
			continue
		}
		where := f.Name(fabric.NodeID(c.ranks[0]))
		if n := len(c.ranks); n > 1 {
			where = fmt.Sprintf("%s and %d more", where, n-1)
		}
		text := fmt.Sprintf("a clock %.6f s ahead of the one here, within %.0f us",
			float64(c.before.ahead)/1e9, float64(c.before.within)/1e3)
		if d := c.drift(); d != 0 {
			text += fmt.Sprintf(", %.1f us more at the end, within %.0f us: %.1f ppm",
				float64(c.after.ahead-c.before.ahead)/1e3, float64(c.after.within)/1e3, d*1e6)
		}
		out.Timeline = append([]report.Event{{Kind: report.KindClock, Where: where, Text: text}}, out.Timeline...)
	}
}
