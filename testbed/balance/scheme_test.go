package balance

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/roce/frame"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func config(t interface {
	Helper()
	Fatal(...any)
}) Config {
	t.Helper()
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindFatTree, K: 4})
	if err != nil {
		t.Fatal(err)
	}
	return Config{Config: hostagent.Config{Fabric: f, Host: 3, Seed: 1}}
}

func newHost(name string, params map[string]string, c Config) (Host, error) {
	spec, err := Find(name)
	if err != nil {
		return nil, err
	}
	return spec.New(params, c)
}

// Whatever the scheme, every flow's bytes are covered once, in new queue pairs.
func TestCoverage(t *testing.T) {
	type sut struct {
		name   string
		params map[string]string
	}
	rapid.Check(t, func(t *rapid.T) {
		c := config(t)
		s := rapid.SampledFrom([]sut{
			{Ethereal, nil}, {ECMP, nil}, {MPRDMA, nil}, {MPRDMA, map[string]string{"ways": "7"}},
			{Spray, nil}, {Spray, map[string]string{"mode": "round-robin", "entropy": "port"}},
			{DRB, nil}, {REPS, nil}, {REPS, map[string]string{"entropy": "port"}}, {Hopper, nil},
			{Flowcut, nil}, {LPT, nil},
		}).Draw(t, "scheme")
		h, err := newHost(s.name, s.params, c)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[hostagent.QP]bool{}
		for batch := range uint64(3) {
			flows := map[uint64]hostagent.Flow{}
			var post []hostagent.Flow
			for i := range rapid.Uint64Range(1, 20).Draw(t, "flows") {
				f := hostagent.Flow{
					ID: batch<<32 | i, Dst: fabric.NodeID((3 + rapid.IntRange(1, 15).Draw(t, "dst")) % 16),
					Bytes: rapid.Int64Range(1, 1000).Draw(t, "bytes"),
				}
				flows[f.ID] = f
				post = append(post, f)
			}
			now := fabric.Time(batch) * fabric.Microsecond
			if err := h.Post(now, post); err != nil {
				t.Fatal(err)
			}
			next := map[uint64]int64{}
			for _, p := range h.Ready().Open {
				f := flows[p.Flow]
				if seen[p.QP] || p.Dst != f.Dst || p.Offset != next[p.Flow] || p.Bytes < 1 {
					t.Fatalf("piece %+v of %+v, of which %d bytes are covered", p, f, next[p.Flow])
				}
				seen[p.QP] = true
				next[p.Flow] += p.Bytes
				if p.Start < now || p.Start > now+hostagent.DefaultStartJitter {
					t.Fatalf("starts at %v, posted at %v", p.Start, now)
				}
				byPath := f.Dst/2 != 1 && s.name != ECMP && s.name != MPRDMA && s.name != Hopper && s.params["entropy"] != "port"
				if p.Labelled != byPath || s.name != Ethereal && byPath != (p.Label < c.Fabric.LabelSpan()) {
					t.Fatalf("%s: label %d, labelled %v", s.name, p.Label, p.Labelled)
				}
			}
			for id, f := range flows {
				if next[id] != f.Bytes {
					t.Fatalf("flow %+v: %d bytes covered", f, next[id])
				}
			}
			if again := h.Ready(); len(again.Open)+len(again.Flip) != 0 {
				t.Fatalf("twice: %+v", again)
			}
		}
	})
}

// TestLPT: flows go to the path with least to send, the longest first, so that the
// fullest path has no more than the mean and one flow; what is acknowledged makes room.
func TestLPT(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, err := newHost(LPT, nil, config(t))
		if err != nil {
			t.Fatal(err)
		}
		var batch []hostagent.Flow
		total, longest := int64(0), int64(0)
		for i := range rapid.Uint64Range(1, 40).Draw(t, "flows") {
			bytes := rapid.Int64Range(1, 1000).Draw(t, "bytes")
			batch = append(batch, hostagent.Flow{ID: i, Dst: otherPod, Bytes: bytes})
			total, longest = total+bytes, max(longest, bytes)
		}
		if err := h.Post(0, batch); err != nil {
			t.Fatal(err)
		}
		loads := map[fabric.Label]int64{}
		open := slices.Clone(h.Ready().Open)
		for _, p := range open {
			loads[p.Label] += p.Bytes
		}
		const paths = 4
		fullest := int64(0)
		for _, n := range loads {
			fullest = max(fullest, n)
		}
		if fullest > total/paths+longest {
			t.Fatalf("the fullest path has %d bytes of %d, longest flow %d", fullest, total, longest)
		}
		h.Timeout(0, open[0].QP)
		if f := h.Ready().Flip; len(f) != 1 || f[0].QP != open[0].QP || f[0].From != open[0].Label || f[0].To == f[0].From {
			t.Fatalf("flips %+v after a time-out of %+v", f, open[0])
		}
		for _, p := range open {
			h.Acked(0, p.QP, p.Bytes)
			h.Done(0, p.QP)
		}
		for _, n := range h.(*lpt).left {
			if n != 0 {
				t.Fatalf("%d bytes are left when all is acknowledged", n)
			}
		}
	})
	// By hand: 7, 6, 5, 5 to the four paths, then 4 and 2 to the two with 5.
	h, err := newHost(LPT, nil, config(t))
	if err != nil {
		t.Fatal(err)
	}
	var batch []hostagent.Flow
	for i, bytes := range []int64{5, 2, 7, 4, 6, 5} {
		batch = append(batch, hostagent.Flow{ID: uint64(i), Dst: otherPod, Bytes: bytes})
	}
	if err := h.Post(0, batch); err != nil {
		t.Fatal(err)
	}
	h.Ready()
	if left := slices.Sorted(slices.Values(h.(*lpt).left)); !slices.Equal(left, []int64{6, 7, 7, 9}) {
		t.Errorf("paths have %v bytes, want 6, 7, 7 and 9", left)
	}
}

func TestHashed(t *testing.T) {
	ports := func(seed uint64, host fabric.NodeID) []fabric.Label {
		c := config(t)
		c.Seed, c.Host = seed, host
		h, err := newHost(ECMP, nil, c)
		if err != nil {
			t.Fatal(err)
		}
		var labels []fabric.Label
		for range 50 {
			if err := h.Post(0, []hostagent.Flow{{Dst: 15, Bytes: 1}}); err != nil {
				t.Fatal(err)
			}
			r := h.Ready()
			labels = append(labels, r.Open[0].Label)
			// Nothing that happens moves it.
			h.Timeout(1, r.Open[0].QP)
			if v := h.Quench(1, frame.Quench{Epoch: 1}); v != hostagent.NotOurs {
				t.Errorf("quench: %v", v)
			}
			if r := h.Ready(); len(r.Flip) != 0 {
				t.Fatalf("%+v", r)
			}
		}
		return labels
	}
	if diff := cmp.Diff(ports(1, 2), ports(1, 2)); diff != "" {
		t.Errorf("same seed, other ports: %s", diff)
	}
	if cmp.Equal(ports(1, 2), ports(2, 2)) || cmp.Equal(ports(1, 2), ports(1, 3)) {
		t.Error("another seed or host, same ports")
	}
	distinct := map[fabric.Label]bool{}
	for _, l := range ports(1, 2) {
		distinct[l] = true
	}
	if len(distinct) < 45 {
		t.Errorf("%d different ports of 50", len(distinct))
	}
	h, err := newHost(ECMP, nil, config(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []hostagent.Flow{{Dst: 3, Bytes: 1}, {Dst: 99, Bytes: 1}, {Dst: 1}} {
		if err := h.Post(0, []hostagent.Flow{{Dst: 1, Bytes: 1}, f}); err == nil || len(h.Ready().Open) != 0 {
			t.Errorf("%+v: error %v", f, err)
		}
	}
	if l := h.AckLabel(0, 1, 77, false); l != 77 {
		t.Errorf("ACK by %d", l)
	}
}

// The wrapped core is wired up: a time-out moves the piece, and ACKs keep off
// the path it left.
func TestEthereal(t *testing.T) {
	h, err := newHost(Ethereal, nil, config(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Post(0, []hostagent.Flow{{ID: 1, Dst: 15, Bytes: 100}, {ID: 2, Dst: 14, Bytes: 100}}); err != nil {
		t.Fatal(err)
	}
	p := h.Ready().Open[0]
	if l := h.AckLabel(0, p.Dst, p.Label, false); l != p.Label {
		t.Errorf("ACK by %d, want %d", l, p.Label)
	}
	now := fabric.Millisecond
	h.Timeout(now, p.QP)
	r := h.Ready()
	if len(r.Flip) == 0 || r.Flip[0].QP != p.QP || r.Flip[0].From != p.Label || r.Flip[0].Reason != hostagent.ByTimeout {
		t.Fatalf("%+v", r.Flip)
	}
	if l := h.AckLabel(now, p.Dst, p.Label, false); l == p.Label {
		t.Errorf("ACK by dead label %d", l)
	}
	if _, ok := h.Deadline(); !ok {
		t.Error("no deadline, though a path's death is to be forgotten")
	}
}

func TestNew(t *testing.T) {
	for _, c := range []struct {
		name   string
		params map[string]string
		want   string
	}{
		{"rps", nil, `"rps" is unknown; use one of ` + strings.Join(Names(), ", ")},
		{Spray, map[string]string{"mode": "randomly"}, `mode of spray is "randomly"; use random or round-robin`},
		{REPS, map[string]string{"freeze": "soon"}, `freeze of reps is "soon"; use a time`},
		{REPS, map[string]string{"entropies": "0"}, `use 1 to 256`},
		{Hopper, map[string]string{"entropy": ""}, `use port or path`},
		{ECMP, map[string]string{"ways": "2"}, `ecmp takes no parameter "ways"`},
		{JSQ, map[string]string{"bins": "5,10"}, `bins of jsq is "5,10"; use none, or three rising percentages`},
		{JSQ, map[string]string{"bins": "5,10,10"}, `three rising percentages`},
		{Flowlet, map[string]string{"gap": "1500ns"}, `use whole microseconds`},
		{Flowlet, map[string]string{"mode": "x"}, `use flowlet or assigned or per-packet`},
		{SwitchSpray, map[string]string{"reshuffle": "256"}, `use 0 to 255`},
		{SwitchSpray, map[string]string{"acks": "none"}, `use spray or hash`},
		{Ofan, map[string]string{"x": "1"}, `takes no parameter`},
		{MPRDMA, map[string]string{"ways": "0"}, `ways of mp-rdma is "0"; use 1 to 256`},
		{MPRDMA, map[string]string{"ways": "two"}, `is "two"`},
	} {
		spec, err := Find(c.name)
		if err == nil {
			err = spec.Check(c.params)
		}
		if !errors.Is(err, ErrScheme) {
			t.Errorf("checked: %v", err)
		}
		if _, err := newHost(c.name, c.params, config(t)); !errors.Is(err, ErrScheme) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
	for _, spec := range Specs() {
		if _, err := spec.New(nil, Config{}); !errors.Is(err, hostagent.ErrConfig) {
			t.Errorf("%s without a fabric: error %v", spec.Name, err)
		}
		h, err := spec.New(nil, config(t))
		if err != nil {
			t.Fatal(err)
		}
		if _, holds := h.(PausingHost); holds != spec.Holds {
			t.Errorf("%s: a Holder %v, its Spec says %v", spec.Name, holds, spec.Holds)
		}
		if err := spec.Check(map[string]string{"suspicion": "on"}); (err == nil) != spec.Suspicion {
			t.Errorf("%s: suspicion: %v, its Spec says %v", spec.Name, err, spec.Suspicion)
		}
	}
}

// What schemes ask of switches, and how bins become depths.
func TestSwitches(t *testing.T) {
	c := SwitchConfig{Buffer: 64_000_000, Ports: 32, Unit: 256}
	for _, x := range []struct {
		name   string
		params map[string]string
		want   controller.Balancing
	}{
		{Ethereal, nil, controller.Balancing{}},
		{REPS, map[string]string{"entropies": "4"}, controller.Balancing{}},
		{SwitchSpray, nil, controller.Balancing{Rule: controller.RobinSpray, Reshuffle: 5, Unit: 256}},
		{SwitchSprayRandom, nil, controller.Balancing{Rule: controller.RandomSpray, Unit: 256}},
		{JSQ, nil, controller.Balancing{Rule: controller.ShortestUplink, Unit: 256}},
		{JSQ, map[string]string{"bins": "5, 10, 20"}, controller.Balancing{
			Rule: controller.ShortestUplink, Unit: 256, Bins: [3]fabric.Bytes{100_000, 200_000, 400_000}}},
		{Flowlet, nil, controller.Balancing{Rule: controller.FlowletUplink, GapUs: 16, Unit: 256}},
		{Flowlet, map[string]string{"mode": "assigned"}, controller.Balancing{Rule: controller.AssignedUplink, GapUs: 16, Unit: 256}},
		{Flowlet, map[string]string{"mode": "per-packet", "gap": "1us"}, controller.Balancing{Rule: controller.BestUplinkByPacket, GapUs: 1, Unit: 256}},
		{Ofan, nil, controller.Balancing{Rule: controller.DestinationRotor, Unit: 256}},
	} {
		spec, err := Find(x.name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := spec.Switches(x.params, c)
		if err != nil {
			t.Errorf("%s: %v", x.name, err)
		}
		if diff := cmp.Diff(x.want, got); diff != "" {
			t.Errorf("%s %v: %s", x.name, x.params, diff)
		}
	}
}
