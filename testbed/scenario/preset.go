package scenario

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/strictyaml"
	"github.com/ethereal-fabric/ethereal/roce/transport"
)

// PresetRef is the preset of the reference evaluation's constants.
const PresetRef = "ref"

// presetNames returns the names of all presets.
func presetNames() []string { return []string{PresetRef} }

// Preset returns the initial values of a scenario with a preset. ok is false for an unknown one; an empty name
// means none.
func Preset(name string) (_ Scenario, ok bool) {
	switch name {
	case "":
		return Default(), true
	case PresetRef:
		return referenceDefaults(), true
	}
	return Default(), false
}

// referenceDefaults returns the constants of the Ethereal authors' public simulator, independent of the defaults. It
// does not include fabrics: the simulator's two are testbed/scenarios/reference-leaf-spine.yaml and
// reference-fat-tree.yaml.
func referenceDefaults() Scenario {
	s := Default()
	s.Preset = PresetRef
	s.Switch = Switch{
		Buffer:         64e6,
		Alpha:          1, // dynamic thresholds
		ECN:            ECN{KMin: 800e3, KMax: 800e3, PMax: 1},
		PFC:            PFC{Alpha: 1},
		Cell:           s.Switch.Cell,
		QuenchInterval: s.Switch.QuenchInterval, // the simulator has none
	}
	s.Host = Host{
		Payload:           9000,
		Headers:           48,
		AckEvery:          1,
		RTO:               fabric.Millisecond,
		CongestionControl: transport.DCTCP, // at line rate first, alpha 1, 1 Gb/s a round trip: package transport's own constants
		Receiver:          SchemeReceiver,
		ReorderWindow:     s.Host.ReorderWindow,
		Carrier:           UDPSourcePort,
		TailProbe:         false, // a moved queue pair waits for its timer
		ResendOnFlip:      false,
		Completion:        OnArrival,
	}
	s.Agent = Agent{
		FailedPathMemory: 100 * fabric.Millisecond,
		BatchWindow:      100 * fabric.Nanosecond,
		StartJitter:      50 * fabric.Nanosecond,
	}
	s.Deadline = 120 * fabric.Millisecond // the link is back after 100 ms
	return s
}

// presetOf returns the initial values that the file's preset names. An unknown name is reported with all other
// errors.
func presetOf(root *yaml.Node) Scenario {
	if root != nil && root.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(root.Content); i += 2 {
			if k := root.Content[i]; k.Kind == yaml.ScalarNode && k.Value == "preset" {
				s, _ := Preset(root.Content[i+1].Value)
				return s
			}
		}
	}
	return Default()
}

func (s *Scenario) checkPreset(bad reportError) {
	if s.Preset != "" && !slices.Contains(presetNames(), s.Preset) {
		bad("preset", fmt.Sprintf("%q is unknown", s.Preset), strictyaml.Choose(s.Preset, presetNames()))
	}
}
