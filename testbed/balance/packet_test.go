package balance

import (
	"slices"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/roce/transport"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// begin returns host 3's balancer and the queue pairs of a flow to each dst.
func begin(t *testing.T, name string, params map[string]string, dst ...fabric.NodeID) (PacketHost, []hostagent.QP) {
	t.Helper()
	return beginAs(t, config(t), name, params, dst...)
}

func beginAs(t *testing.T, c Config, name string, params map[string]string, dst ...fabric.NodeID) (PacketHost, []hostagent.QP) {
	t.Helper()
	h, err := newHost(name, params, c)
	if err != nil {
		t.Fatal(err)
	}
	var batch []hostagent.Flow
	for i, d := range dst {
		batch = append(batch, hostagent.Flow{ID: uint64(i), Dst: d, Bytes: 1_000_000})
	}
	if err := h.Post(0, batch); err != nil {
		t.Fatal(err)
	}
	var qps []hostagent.QP
	for _, p := range h.Ready().Open {
		qps = append(qps, p.QP)
	}
	return h.(PacketHost), qps
}

func draw(h PacketHost, qp hostagent.QP, n int) []fabric.Label {
	labels := make([]fabric.Label, n)
	for i := range labels {
		labels[i] = h.Label(0, qp)
	}
	return labels
}

// count returns how often each label is drawn.
func count(labels []fabric.Label) map[fabric.Label]int {
	m := map[fabric.Label]int{}
	for _, l := range labels {
		m[l]++
	}
	return m
}

const (
	sameToR  = 2
	samePod  = 0
	otherPod = 15
)

// A k=4 fat-tree has two paths within the pod, labels 0 and 2, and four to
// other pods, 0 to 3.
func TestSpray(t *testing.T) {
	h, qp := begin(t, Spray, nil, samePod, otherPod, sameToR)
	if m := count(draw(h, qp[0], 1000)); len(m) != 2 || m[0] < 440 || m[2] < 440 {
		t.Errorf("within the pod: %v", m)
	}
	m := count(draw(h, qp[1], 4000))
	for l := range fabric.Label(4) {
		if m[l] < 900 {
			t.Errorf("between pods: %v", m)
		}
	}
	if m := count(draw(h, qp[2], 10)); len(m) != 1 || m[0]+m[1]+m[2]+m[3] > 0 {
		t.Errorf("under the ToR: %v", m)
	}

	// Round robin: as even as can be for each queue pair, whatever the order in
	// which they send.
	h, qp = begin(t, Spray, map[string]string{"mode": "round-robin"}, otherPod, 14)
	var labels [2][]fabric.Label
	for range 8 {
		for i := range labels {
			labels[i] = append(labels[i], h.Label(0, qp[i]))
		}
	}
	for i := range labels {
		if diff := cmp.Diff(map[fabric.Label]int{0: 2, 1: 2, 2: 2, 3: 2}, count(labels[i])); diff != "" {
			t.Errorf("round robin: %s", diff)
		}
		if !slices.Equal(labels[i][:4], labels[i][4:]) {
			t.Errorf("round robin: %v", labels[i])
		}
	}

	h, qp = begin(t, Spray, map[string]string{"entropy": "port"}, otherPod, sameToR)
	ports := draw(h, qp[0], 100)
	if slices.Min(ports) < 4 || len(count(ports)) < 95 {
		t.Errorf("ports %v", ports)
	}
	if len(count(draw(h, qp[1], 10))) != 1 {
		t.Error("several ports under the ToR")
	}
}

// Each destination host has a pointer of its own; of four packets in a row two
// take each uplink, in turn, and one each core.
func TestDRB(t *testing.T) {
	h, qp := begin(t, DRB, nil, otherPod, 14, otherPod, samePod, sameToR)
	order := []fabric.Label{0, 2, 1, 3, 0, 2, 1, 3}
	for _, q := range qp[:2] {
		got := draw(h, q, 4)
		i := slices.Index(order, got[0])
		if diff := cmp.Diff(order[i:i+4], got); diff != "" {
			t.Errorf("queue pair %d: %s", q, diff)
		}
	}
	a, b := draw(h, qp[0], 1)[0], draw(h, qp[2], 1)[0]
	if i := slices.Index(order, a); order[i+1] != b {
		t.Errorf("%d, then %d by another queue pair to the same host", a, b)
	}
	if m := count(draw(h, qp[3], 10)); m[0] != 5 || m[2] != 5 {
		t.Errorf("within the pod: %v", m)
	}
	if len(count(draw(h, qp[4], 10))) != 1 {
		t.Error("several labels under the ToR")
	}
	starts := map[fabric.Label]bool{}
	for seed := range uint64(20) {
		c := config(t)
		c.Seed = seed
		h, qp := beginAs(t, c, DRB, nil, otherPod)
		starts[h.Label(0, qp[0])] = true
	}
	if len(starts) != 4 {
		t.Errorf("starts %v of 20 seeds", starts)
	}
}

// TestREPS follows one ring: exploring, recycling the oldest first, ECN,
// freezing and thawing. Labels that were not echoed are recognised as new.
func TestREPS(t *testing.T) {
	h, qp := begin(t, REPS, map[string]string{"entropies": "4", "explore": "3", "freeze": "1ms", "entropy": "port"}, otherPod)
	q := qp[0]
	known := func(l fabric.Label) bool { return l < 100 } // ports that are drawn are larger by luck of the seed
	echo := func(marked bool, labels ...fabric.Label) {
		for _, l := range labels {
			h.Echo(0, q, transport.Echo{Label: l, Marked: marked})
		}
	}
	expect := func(what string, want ...fabric.Label) {
		t.Helper()
		got := draw(h, q, len(want))
		for i := range got {
			if !known(got[i]) {
				got[i] = 999
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", what, diff)
		}
	}
	echo(false, 10, 11)
	expect("the first packets explore", 999, 999, 999)
	expect("then the ring is used, oldest first, each once", 10, 11, 999)
	echo(true, 12)
	echo(false, 13)
	expect("a marked packet's is not kept", 13, 999)
	echo(false, 20, 21, 22, 23, 24)
	expect("a fifth replaces the oldest", 21, 22, 23, 24, 999)
	h.Timeout(0, q)
	expect("frozen: all in the ring, again and again", 21, 22, 23, 24, 21, 22, 23, 24, 21)
	echo(false, 30)
	expect("frozen: what comes takes its place and waits for its turn", 22, 23, 24, 30, 22, 23)
	if l := h.Label(fabric.Millisecond, q); known(l) {
		t.Errorf("label %d after the freezing time, want a new one", l)
	}
	echo(false, 40)
	expect("thawed: nothing is left, packets explore", 999, 999, 40, 999)
	h.Timeout(fabric.Millisecond, q)
	if l := h.Label(fabric.Millisecond, q); l != 40 {
		t.Errorf("label %d, want the one there is", l)
	}
	h.Done(0, q)
	h.Echo(0, q, transport.Echo{Label: 1}) // late
	h.Timeout(0, q)
}

// Without a parameter a queue pair explores for as many packets as fill its
// path: six links there and back at 0.5 us and store-and-forward of a packet of
// 0.18 us at each, 7.1 us, make 39; two links 13.
// With recycle: until-marked packets go on with the least entropy that came back unmarked.
func TestREPSUntilMarked(t *testing.T) {
	h, qps := begin(t, REPS, map[string]string{"recycle": "until-marked", "explore": "1"}, otherPod)
	qp := qps[0]
	h.Label(0, qp) // explores
	for _, step := range []struct {
		echo transport.Echo
		want fabric.Label
	}{
		{transport.Echo{Label: 3}, 3}, {transport.Echo{Label: 1}, 1}, {transport.Echo{Label: 2}, 1}, {transport.Echo{Label: 1}, 1},
		{transport.Echo{Label: 2, Marked: true}, 1}, {transport.Echo{Label: 1, Marked: true}, 3}, {transport.Echo{Label: 0, Marked: true}, 3},
	} {
		h.Echo(0, qp, step.echo)
		if labels := count(draw(h, qp, 5)); len(labels) != 1 || labels[step.want] != 5 {
			t.Errorf("after %+v: %v, want %d alone", step.echo, labels, step.want)
		}
	}
	h.Echo(0, qp, transport.Echo{Label: 3, Marked: true})
	if labels := count(draw(h, qp, 100)); len(labels) != 4 {
		t.Errorf("with an empty set: %v", labels)
	}
}

func TestREPSExplores(t *testing.T) {
	h, qp := begin(t, REPS, nil, otherPod, sameToR)
	for i, want := range []int{39, 13} {
		n := 0
		h.Echo(0, qp[i], transport.Echo{Label: 7})
		for h.Label(0, qp[i]) != 7 {
			n++
		}
		if n != want {
			t.Errorf("queue pair %d explores for %d packets, want %d", qp[i], n, want)
		}
	}
}

// A frozen queue pair that nothing has ever come back to draws at random.
func TestREPSFreezesEmpty(t *testing.T) {
	h, qp := begin(t, REPS, nil, otherPod)
	h.Timeout(0, qp[0]) // while packets explore: it says nothing
	draw(h, qp[0], 39)
	h.Timeout(0, qp[0])
	if m := count(draw(h, qp[0], 400)); len(m) != 4 || m[0] < 50 {
		t.Errorf("%v", m)
	}
}

// TestHopper: a round trip over 1.5 times the base makes two probes by other
// labels, and an answer under 0.8 times the current one a move.
func TestHopper(t *testing.T) {
	const us = fabric.Microsecond
	for _, c := range []struct {
		name    string
		current fabric.Time
		answers []fabric.Time
		moves   int // to the answer with this index; -1: does not
	}{
		{"fine", 10 * us, nil, -1},
		{"better", 20 * us, []fabric.Time{15 * us, 12 * us}, 1},
		{"first is better", 20 * us, []fabric.Time{12 * us, 15 * us}, 0},
		{"not better enough", 20 * us, []fabric.Time{17 * us, 18 * us}, -1},
		{"one lost", 20 * us, []fabric.Time{0, 12 * us}, 1},
		{"both lost", 20 * us, []fabric.Time{0, 0}, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, qp := begin(t, Hopper, map[string]string{"entropy": "path"}, otherPod)
			home := h.Label(0, qp[0])
			h.Echo(0, qp[0], transport.Echo{Label: home, RTT: c.current})
			h.Echo(0, qp[0], transport.Echo{Label: home, RTT: c.current}) // no more probes for now
			probes := slices.Clone(h.Ready().Open)
			if len(probes) != len(c.answers) {
				t.Fatalf("%d probes, want %d", len(probes), len(c.answers))
			}
			labels := map[fabric.Label]bool{home: true}
			for i, p := range probes {
				if p.Bytes != 0 || p.Dst != otherPod || h.Label(0, p.QP) != p.Label {
					t.Errorf("%+v, label %d", p, h.Label(0, p.QP))
				}
				labels[p.Label] = true
				h.Echo(3*us, p.QP, transport.Echo{Label: p.Label, RTT: c.answers[i]})
				h.Done(0, p.QP)
			}
			if len(labels) != 1+len(probes) {
				t.Errorf("labels %v are not different", labels)
			}
			want := home
			if c.moves >= 0 {
				want = probes[c.moves].Label
			}
			// What is on the old path gets there first.
			var holds []Hold
			if c.moves >= 0 {
				holds = []Hold{{qp[0], 3*us + c.current - c.answers[c.moves]}}
			}
			if diff := cmp.Diff(holds, slices.Clone(h.(PausingHost).Holds()), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("holds (-want +got):\n%s", diff)
			}
			if got := h.Label(0, qp[0]); got != want {
				t.Errorf("by label %d, want %d", got, want)
			}
			// The next epoch may probe again.
			h.Echo(0, qp[0], transport.Echo{RTT: 100 * us})
			if n := len(h.Ready().Open); n != 2 {
				t.Errorf("%d probes in the next epoch", n)
			}
		})
	}
	// Within the pod there is one other path, under the ToR none.
	h, qp := begin(t, Hopper, map[string]string{"entropy": "path"}, samePod, sameToR)
	for i, want := range []int{1, 0} {
		h.Echo(0, qp[i], transport.Echo{RTT: 100 * us})
		if n := len(h.Ready().Open); n != want {
			t.Errorf("%d probes, want %d", n, want)
		}
	}
	// A probe whose queue pair is done.
	h, qp = begin(t, Hopper, map[string]string{"entropy": "port"}, otherPod)
	h.Echo(0, qp[0], transport.Echo{RTT: 100 * us})
	probe := h.Ready().Open[0].QP
	h.Done(0, qp[0])
	h.Echo(0, probe, transport.Echo{RTT: us})
	h.Done(0, probe)
}

// TestFlowcut: a queue pair changes its path when nothing of it is in flight, and at
// no other time, whatever it sends and what is acknowledged in which order.
func TestFlowcut(t *testing.T) {
	h, qps := begin(t, Flowcut, nil, otherPod)
	qp := qps[0]
	first := h.Label(0, qp)
	if m := count(draw(h, qp, 100)); m[first] != 100 {
		t.Errorf("labels %v with packets in flight, first %d", m, first)
	}
	// Long round trips ask it to wait, once in that time.
	for i, want := range []int{1, 0} {
		h.Echo(0, qp, transport.Echo{Label: first, RTT: 100 * fabric.Microsecond})
		holds := h.(PausingHost).Holds()
		if len(holds) != want || want == 1 && holds[0] != (Hold{qp, 100 * fabric.Microsecond}) {
			t.Errorf("echo %d: holds %v", i, holds)
		}
	}
	if l := h.Label(100*fabric.Microsecond, qp); l != first {
		t.Errorf("label %d with packets in flight, first %d", l, first)
	}
	// What is lost is no longer in flight.
	seen := map[fabric.Label]int{}
	for range 100 {
		h.Timeout(0, qp)
		seen[h.Label(0, qp)]++
	}
	if len(seen) != 4 {
		t.Errorf("paths %v when nothing is in flight, want all four", seen)
	}

	rapid.Check(t, func(t *rapid.T) {
		c := config(t)
		h, err := newHost(Flowcut, nil, c)
		if err != nil {
			t.Fatal(err)
		}
		packets := rapid.IntRange(1, 40).Draw(t, "packets")
		short := rapid.Int64Range(1, transport.DefaultMTU).Draw(t, "last")
		bytes := int64(packets-1)*transport.DefaultMTU + short
		if err := h.Post(0, []hostagent.Flow{{ID: 1, Dst: otherPod, Bytes: bytes}}); err != nil {
			t.Fatal(err)
		}
		qp, p := h.Ready().Open[0].QP, h.(PacketHost)
		flying, next, at := []int{}, 0, fabric.Label(0)
		for next < packets || len(flying) > 1 {
			if next < packets && (len(flying) == 0 || rapid.Bool().Draw(t, "send")) {
				l := p.Label(0, qp)
				if len(flying) > 0 && l != at {
					t.Fatalf("path %d with %d packets in flight on path %d", l, len(flying), at)
				}
				at = l
				flying, next = append(flying, next), next+1
				continue
			}
			i := rapid.IntRange(0, len(flying)-1).Draw(t, "acknowledged")
			n := int64(transport.DefaultMTU)
			if flying[i] == packets-1 {
				n = short
			}
			p.Acked(0, qp, n)
			flying = slices.Delete(flying, i, i+1)
		}
	})
}

// A queue pair's values take turns; a mark has one skipped once, and a loss takes one out,
// until its probes were answered in a row.
func TestMRC(t *testing.T) {
	h, qps := begin(t, MRC, map[string]string{"probes": "3"}, otherPod)
	qp := qps[0]
	if turns := draw(h, qp, 8); len(count(turns[:4])) != 4 || !slices.Equal(turns[:4], turns[4:]) {
		t.Errorf("in turn: %v", turns)
	}
	h.Echo(0, qp, transport.Echo{Label: 2, Marked: true})
	if turns := count(draw(h, qp, 7)); turns[2] != 1 || len(turns) != 4 {
		t.Errorf("after a mark: %v", turns)
	}
	lost := func(l fabric.Label) { h.(PathLossHost).LostBy(0, qp, l) }
	probe := func() hostagent.QP {
		t.Helper()
		open := h.Ready().Open
		if len(open) != 1 || open[0].Bytes != 0 || open[0].Label != 1 || h.Label(0, open[0].QP) != 1 {
			t.Fatalf("probes: %+v", open)
		}
		return open[0].QP
	}
	lost(1)
	lost(1)
	p := probe()
	for i, rtt := range []fabric.Time{1, 1, 0, 1, 1, 1} { // the third was lost once
		if turns := count(draw(h, qp, 9)); turns[1] != 0 || len(turns) != 3 {
			t.Errorf("after a loss and %d probes: %v", i, turns)
		}
		h.Echo(0, p, transport.Echo{Label: 1, RTT: rtt})
		h.Done(0, p)
		if i < 5 {
			p = probe()
		}
	}
	if turns := count(draw(h, qp, 8)); len(turns) != 4 || len(h.Ready().Open) != 0 {
		t.Errorf("after its probes: %v", turns)
	}
	for l := range fabric.Label(4) {
		lost(l)
	}
	if turns := count(draw(h, qp, 8)); len(turns) == 0 {
		t.Error("nothing goes when all values are retired")
	}
	probes := h.Ready().Open
	h.Done(0, qp)
	if ends := h.(ProbeEnder).Ends(); len(ends) != len(probes) || len(probes) != 4 {
		t.Errorf("%d probes were sent, %d end with their queue pair", len(probes), len(ends))
	}

	// Of ports there are more: a lost one is replaced.
	h, qps = begin(t, MRC, map[string]string{"entropy": "port", "values": "8"}, otherPod)
	before := count(draw(h, qps[0], 8))
	gone := h.Label(0, qps[0])
	h.(PathLossHost).LostBy(0, qps[0], gone)
	if after := count(draw(h, qps[0], 8)); len(before) != 8 || len(after) != 8 || after[gone] != 0 {
		t.Errorf("%v, and without %d: %v", before, gone, after)
	}
}

// What the schemes that label packets have in common.
func TestPacketHosts(t *testing.T) {
	for _, name := range []string{Spray, DRB, REPS, Hopper, MRC, SRD, Falcon} {
		if spec, err := Find(name); err != nil || spec.Receiver == transport.GoBackN {
			t.Errorf("%s with go-back-N, %v", name, err)
		}
		run := func() []fabric.Label {
			h, qp := begin(t, name, nil, otherPod, samePod)
			return append(draw(h, qp[0], 50), draw(h, qp[1], 50)...)
		}
		if diff := cmp.Diff(run(), run()); diff != "" {
			t.Errorf("%s: same seed, other labels", name)
		}
		h, qp := begin(t, name, nil, otherPod)
		if n := testing.AllocsPerRun(1000, func() {
			h.Echo(0, qp[0], transport.Echo{Label: h.Label(0, qp[0])})
		}); n != 0 {
			t.Errorf("%s: %v allocations per packet", name, n)
		}
	}
	for _, name := range []string{Ethereal, ECMP, MPRDMA, Flowcut} {
		if spec, err := Find(name); err != nil || spec.Receiver != transport.GoBackN {
			t.Errorf("%s with %v, %v", name, spec.Receiver, err)
		}
	}
}
