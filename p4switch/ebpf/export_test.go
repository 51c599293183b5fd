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

// Dirty is how many entries Sync would look at.
func (s *Switch) Dirty() (n int) {
	for _, c := range s.tables {
		if c != nil {
			n += len(c.dirty)
		}
	}
	return n
}

// Keys is how many keys the entries of tables with masks have, and how many of a table the kernel takes at most.
func (s *Switch) Keys(table string) (n, most int) {
	id, _ := s.sw.Program().TableByName(table)
	return len(s.tables[id].entriesByMaskedKey), s.tables[id].lowered.MaxKeys
}

// Fewer is what Load does when the verifier refuses.
func Fewer(load func(masks int) error) error {
	_, err := loadWithFewerMasks(func(masks int) (*Switch, error) { return nil, load(masks) })
	return err
}
