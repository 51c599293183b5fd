package virtual

import (
	"testing"

	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// TestLossless: an incast overruns switches of little buffer, unless they pause
// who sends to them. The preset of the reference evaluation has them do so.
func TestLossless(t *testing.T) {
	lab := newLab(t)
	s, err := scenario.Load("../scenarios/lossless.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s.Collectives = s.Collectives[:1]
	s.Schemes = s.Schemes[:1]
	for _, pfc := range []scenario.PFC{s.Switch.PFC, {Xoff: 80e3}, {}} {
		s.Switch.PFC = pfc
		runs, err := s.Expand()
		if err != nil {
			t.Fatal(err)
		}
		r := mustRun(t, lab, runs[0])
		lossless := pfc != scenario.PFC{}
		if !r.Finished || lossless != (r.Drops == 0) || lossless != (r.Pauses > 0) {
			t.Errorf("pfc %+v: finished %v, %d drops, %d pauses", pfc, r.Finished, r.Drops, r.Pauses)
		}
	}
}

// TestPresetWire: the preset's packets are as long as the reference's, so that
// the bound is its bound and no run ends before it.
func TestPresetWire(t *testing.T) {
	lab := newLab(t)
	text := `
name: wire
preset: ref
fabric: {kind: leaf-spine, tors: 2, spines: 2, hosts_per_tor: 2}
collectives: [{kind: permutation, bytes: 9MB, shift: 2}]
schemes: [ethereal]
`
	s, err := scenario.Parse("wire.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	runs, err := s.Expand()
	if err != nil {
		t.Fatal(err)
	}
	r := mustRun(t, lab, runs[0])
	// 1000 packets of 9048 B at 400 Gb/s, and the way of the last one.
	if least := 1000 * 9048 * 20e-6; *r.CCT < least || *r.CCT > least+8 {
		t.Errorf("CCT %v us, want %v and the way of a packet", *r.CCT, least)
	}
	if *r.Bound > *r.CCT {
		t.Errorf("CCT %v us is below the bound %v us", *r.CCT, *r.Bound)
	}
}
