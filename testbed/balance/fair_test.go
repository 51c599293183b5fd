package balance

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/roce/transport"
)

// Every scheme has a fair form that it takes, ethereal none beyond what it is.
func TestFairForms(t *testing.T) {
	for _, s := range Specs() {
		given := s.Fair(nil)
		if err := s.Check(given); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
		if s.Adapted(given) != (len(given) > 0) || s.Adapted(nil) {
			t.Errorf("%s: %v is adapted: %v", s.Name, given, s.Adapted(given))
		}
		if s.Name == Ethereal && len(given) > 0 {
			t.Errorf("ethereal gets %v", given)
		}
		if s.FindsLate(given, s.Receiver) && s.Receiver == transport.GoBackN {
			t.Errorf("%s: losses are found by time of receivers that go back", s.Name)
		}
	}
	reps, _ := Find(REPS)
	if err := reps.Check(map[string]string{"entropy": "port", "news": "taken"}); err == nil {
		t.Error("news are taken by packets that choose no path")
	}
	ecmp, _ := Find(ECMP)
	if err := ecmp.Check(map[string]string{"convergence": "0s"}); err == nil {
		t.Error("a convergence of 0s is taken, which a run's hash takes for none")
	}
}

// When hosts know that a link is dead, hosts that label packets use none of its paths, turns stay even, and when it is
// back they do.
func TestNews(t *testing.T) {
	for _, name := range []string{Spray, REPS, DRB, MRC, SRD} {
		for _, taken := range []bool{true, false} {
			given := map[string]string{}
			if taken {
				given["news"] = "taken"
			}
			h, qps := begin(t, name, given, otherPod)
			f := config(t).Fabric
			tor := f.ToROf(3)
			link := f.Node(tor).Link(f.Node(tor).FirstUplink()) // of labels 0 and 1
			h.Update(1, &statepb.Update{Epoch: 1, Links: []*statepb.LinkState{{Link: uint32(link), Epoch: 1}}})
			m := count(draw(h, qps[0], 800))
			if dead := m[0] + m[1]; (dead == 0) != taken {
				t.Errorf("%s, news taken %v: %d of 800 packets by a dead link: %v", name, taken, dead, m)
			}
			if name == DRB && taken && (m[2] != 400 || m[3] != 400) {
				t.Errorf("%s: turns are not even: %v", name, m)
			}
			h.Update(2, &statepb.Update{Epoch: 2, Links: []*statepb.LinkState{{Link: uint32(link), Up: true, Epoch: 2}}})
			if m := count(draw(h, qps[0], 800)); len(m) != 4 {
				t.Errorf("%s, news taken %v: when the link is back: %v", name, taken, m)
			}
		}
	}
}

// A loss that is found freezes the ring without the entropy by which it was sent.
func TestREPSByLoss(t *testing.T) {
	h, qps := begin(t, REPS, map[string]string{"loss": "late", "explore": "1", "entropies": "4"}, otherPod)
	losses, ok := h.(PathLossHost)
	if !ok {
		t.Fatal("it is not notified of losses")
	}
	h.Label(0, qps[0])
	for _, l := range []fabric.Label{0, 1, 2, 3} {
		h.Echo(0, qps[0], transport.Echo{Label: l})
	}
	losses.LostBy(10, qps[0], 1)
	if d := cmp.Diff([]fabric.Label{0, 2, 3, 0, 2, 3}, draw(h, qps[0], 6)); d != "" {
		t.Errorf("after the loss (-want +got):\n%s", d)
	}
	if plain, _ := begin(t, REPS, nil, otherPod); func() bool { _, ok := plain.(PathLossHost); return ok }() {
		t.Error("as published it is notified of losses")
	}
}
