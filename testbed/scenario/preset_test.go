package scenario

import (
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/transport"
)

const presetBody = `
name: p
fabric: {kind: fat-tree, k: 4}
collectives: [{kind: all-to-all, bytes: 1MB}]
schemes: [ethereal]
`

func parsed(t *testing.T, text string) *Scenario {
	t.Helper()
	s, err := Parse("p.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The preset's constants are the reference's, wherever the key stands, and what
// is written beside it counts.
func TestPreset(t *testing.T) {
	for _, text := range []string{"preset: ref\n" + presetBody, presetBody + "preset: ref\n"} {
		s := parsed(t, text)
		switch {
		case s.Switch.Buffer != 64e6, s.Switch.Alpha != 1, s.Switch.ECN != ECN{800e3, 800e3, 1}, s.Switch.PFC != PFC{Alpha: 1},
			s.Host.Payload != 9000, s.Host.Headers != 48, s.Host.RTO != fabric.Millisecond, s.Host.AckEvery != 1,
			s.Host.CongestionControl != transport.DCTCP, s.Host.TailProbe, s.Host.ResendOnFlip,
			s.Agent.FailedPathMemory != 100*fabric.Millisecond, s.Agent.BatchWindow != 100*fabric.Nanosecond,
			s.Agent.StartJitter != 50*fabric.Nanosecond:
			t.Errorf("preset ref: %+v", s)
		}
	}
	s := parsed(t, "preset: ref\nhost: {rto: 70us}\nswitch: {pfc: {alpha: 0}}\n"+presetBody)
	if s.Host.RTO != 70*fabric.Microsecond || s.Host.Headers != 48 || s.Switch.PFC != (PFC{}) {
		t.Errorf("keys beside the preset: %+v", s)
	}
	if plain := parsed(t, presetBody); plain.Host.Headers != 0 || plain.Switch.PFC != (PFC{}) {
		t.Errorf("without a preset: %+v", plain)
	}
}

// A preset's name is not what a run depends on, its values are.
func TestPresetHash(t *testing.T) {
	hash := func(s *Scenario) string {
		runs, err := s.Expand()
		if err != nil {
			t.Fatal(err)
		}
		h, err := runs[0].Hash()
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	s := parsed(t, "preset: ref\n"+presetBody)
	with := hash(s)
	s.Preset = ""
	if hash(s) != with {
		t.Error("the preset's name changes the hash")
	}
	if hash(parsed(t, presetBody)) == with {
		t.Error("the preset's values do not change the hash")
	}
}
