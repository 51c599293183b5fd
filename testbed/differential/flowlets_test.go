//go:build linux

package differential

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ethereal-fabric/ethereal/controller"
)

// Flows of TestFlowlets.
const (
	keepers = 8  // send within every gap
	flows   = 24 // keepers, and those that pause for longer
	filler  = 99 // the flow of packets that only keep BMv2's ports in step
)

// TestFlowlets runs flowlets with their gap in both: a flow stays on its uplink
// while its packets follow each other within the gap, however long it has been
// there, and is free to move after a longer pause. BMv2's clock is its own, so
// that how long a flow has paused there is known from when its packets were sent
// and seen, between two bounds: a flow is judged when both are on one side of the
// gap.
func TestFlowlets(t *testing.T) {
	const gap = 300 * time.Millisecond
	program, f, schema, ports := ourProgram(t)
	pair := newPair(t, program, ports)
	writeTables(t, pair, schema, f, f.ToRID(0), labelled(controller.Balancing{
		Rule: controller.FlowletUplink, GapUs: uint32(gap / time.Microsecond), Unit: 1500,
	}))
	mine := pair.Ours.(*ours)
	start := time.Now()
	judges := []*flowletJudge{
		{name: "ours", gap: gap, clock: func() time.Duration { return time.Duration(mine.now) }, last: map[byte]sighting{}},
		{name: "reference", gap: gap, clock: func() time.Duration { return time.Since(start) }, last: map[byte]sighting{}},
	}
	pause := func(d time.Duration) {
		time.Sleep(d)
		mine.now += int64(d)
	}
	number := uint32(0)
	burst := func(n byte) {
		in := turns(n, func(port uint32, flow byte) Packet {
			number++
			return Packet{Port: port, Data: upward(t, f, flow, number)}
		}, ports)
		for _, j := range judges {
			j.from = j.clock()
		}
		a, b, err := pair.Exchange(in)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := all(a), all(b); !slices.EqualFunc(a, b, bytes.Equal) {
			t.Fatalf("%d packets go up here and %d there, or others", len(a), len(b))
		}
		judges[0].see(waysOf(a))
		judges[1].see(waysOf(b))
	}
	const enough, rounds = 120, 60
	for range rounds {
		burst(flows)
		pause(gap / 10)
		burst(flows)
		for range 2 {
			pause(gap * 4 / 10)
			burst(keepers)
		}
		pause(gap * 4 / 10)
		if !slices.ContainsFunc(judges, func(j *flowletJudge) bool { return j.within < enough || j.beyond < enough }) {
			break
		}
	}
	for _, j := range judges {
		t.Logf("%s: %d packets within the gap, %d of another uplink; %d after a longer pause, %d of another uplink; %d not judged",
			j.name, j.within, j.strayed, j.beyond, j.moved, j.unclear)
		switch {
		case j.within < enough || j.beyond < enough:
			t.Errorf("%s: too few packets could be judged: the machine is too busy for a gap of %v", j.name, gap)
		case j.strayed > 0:
			t.Errorf("%s: %d packets left their flow's uplink within the gap; first %s", j.name, j.strayed, j.first)
		case j.moved*10 < j.beyond*3 || j.moved*10 > j.beyond*7:
			t.Errorf("%s: %d of %d flows that paused took the other of two uplinks; half of them should", j.name, j.moved, j.beyond)
		}
	}
}

// turns returns a packet of each of the first n flows, by the hosts' two ports.
// BMv2 takes packets by all ports in turn and holds back the last turn's: so the
// other ports have fillers, and so has the last turn.
func turns(n byte, packet func(port uint32, flow byte) Packet, ports []uint32) []Packet {
	var in []Packet
	for at := byte(0); at <= n; at += 2 {
		for i, port := range ports {
			flow := byte(filler)
			if i < 2 && at < n {
				flow = at + byte(i)
			}
			in = append(in, packet(port, flow))
		}
	}
	return in
}

// sighting is when a flow's last packet was handled, between two times, and where
// it went.
type sighting struct {
	from, to time.Duration
	uplink   uint32
}

// flowletJudge follows the flows through one device.
type flowletJudge struct {
	name  string
	gap   time.Duration
	clock func() time.Duration
	from  time.Duration // when the packets under way were sent
	last  map[byte]sighting

	within, strayed int // packets within the gap of the one before; by another uplink
	beyond, moved   int // packets after a pause longer than the gap; by another uplink
	unclear         int
	first           string // packet that strayed
}

// see judges the packets that were sent last, at most one of a flow.
func (j *flowletJudge) see(choices []taken) {
	to := j.clock()
	for _, w := range choices {
		if w.flow == filler {
			continue
		}
		was, known := j.last[w.flow]
		j.last[w.flow] = sighting{j.from, to, w.uplink}
		least, most := j.from-was.to, to-was.from
		switch {
		case !known:
		case most < j.gap:
			j.within++
			if was.uplink != w.uplink {
				if j.strayed++; j.strayed == 1 {
					j.first = fmt.Sprintf("flow %d, after %v to %v", w.flow, least, most)
				}
			}
		case least > j.gap:
			j.beyond++
			if was.uplink != w.uplink {
				j.moved++
			}
		default:
			j.unclear++
		}
	}
}
