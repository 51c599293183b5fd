package scenario

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Hash returns the SHA-256, in hexadecimal, of everything in the scenario on which the run depends: fabric,
// switches, hosts, agents, control plane, deadline, and the run's own collective, scheme, failure, notifier and
// seed. Names and descriptions are not part of it, nor are the scenario's other runs. Two runs with the same hash,
// by the same version of the program, have the same result.
//
// Zero values are left out, so that a key that a later version adds does not change the hash of runs without it.
func (r Run) Hash() (string, error) {
	s := *r.Scenario
	s.Name, s.Description, s.Preset, s.Opponents = "", "", "", ""
	s.Collectives, s.Schemes, s.Failures, s.Seeds = nil, nil, nil, nil
	s.Expect, s.Worlds = nil, Worlds{}
	if s.Host.Completion == OnArrival {
		s.Host.Completion = "" // the value of all runs before the key existed
	}
	failure := r.Failure
	failure.Name, failure.Case, failure.Notifiers = "", "", nil
	op := r.Collective
	op.File = "" // its content counts, not its name
	what := map[string]any{}
	for _, part := range []struct {
		key   string
		value any
	}{
		{"scenario", s}, {"collective", op}, {"program", r.Program}, {"scheme", r.Scheme}, {"failure", failure},
		{"notifier", string(r.Notifier)}, {"seed", fmt.Sprint(r.Seed)},
	} {
		text, err := json.Marshal(part.value)
		if err != nil {
			return "", fmt.Errorf("scenario: hash of %v: %w", r, err)
		}
		var plain any
		if err := json.Unmarshal(text, &plain); err != nil {
			return "", fmt.Errorf("scenario: hash of %v: %w", r, err)
		}
		if kept, ok := withoutZeros(plain); ok {
			what[part.key] = kept
		}
	}
	withRemovedSettings(what["scenario"].(map[string]any), s.Host.TailProbe)
	text, err := json.Marshal(what) // keys are sorted
	if err != nil {
		return "", fmt.Errorf("scenario: hash of %v: %w", r, err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// withRemovedSettings adds settings that earlier versions had, with the values that all results have: their hashes stay
// valid.
func withRemovedSettings(s map[string]any, tailProbe bool) {
	control, _ := s["Control"].(map[string]any)
	if control == nil {
		control = map[string]any{}
		s["Control"] = control
	}
	control["Damping"] = map[string]any{"Suppress": 2500, "Reuse": 750, "Longest": "60s"}
	control["StartWait"], control["StageTimeout"], control["TablesWait"] = "5s", "1s", "15s"
	if host := s["Host"].(map[string]any); tailProbe {
		host["NudgeOnFlip"] = true
	}
}

// withoutZeros removes zero values from objects. ok is false if v is one. Elements of lists stay, because their
// index matters.
func withoutZeros(v any) (kept any, ok bool) {
	switch x := v.(type) {
	case nil:
		return nil, false
	case bool:
		return x, x
	case float64:
		return x, x != 0
	case string:
		return x, x != "" && x != "0s" && x != "0B" && x != "0b/s" && x != "0%"
	case []any:
		out := make([]any, len(x))
		for i, e := range x {
			out[i], _ = withoutZeros(e)
		}
		return out, len(out) > 0
	case map[string]any:
		out := map[string]any{}
		for k, e := range x {
			if e, ok := withoutZeros(e); ok {
				out[k] = e
			}
		}
		return out, len(out) > 0
	}
	return v, true
}
