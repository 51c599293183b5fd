package ebpf

import (
	"slices"

	"github.com/cilium/ebpf/asm"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
)

// LoadAfter loads the switch's program with instructions before its own.
func LoadAfter(first asm.Instructions, sw *interp.Switch) (*Switch, error) {
	low, err := lower(sw.Program(), lowerConfig{})
	if err != nil {
		return nil, err
	}
	low.Instructions = slices.Concat(first, low.Instructions)
	return load(sw, low, Config{Stopped: true})
}
