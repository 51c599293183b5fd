package ebpf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	bpf "github.com/cilium/ebpf"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
)

// Sync copies the changes of the interpreter's tables into the kernel, at a cost in proportion to the changes: first
// new and changed entries, then default actions and masks, then deletions. After an error some changes are missing; the
// next Sync repeats them.
func (s *Switch) Sync() error {
	if !s.changed {
		return nil
	}
	for _, c := range s.profiles {
		if err := c.writeChanges(s.sw); err != nil {
			return fmt.Errorf("kernel: action profile %q: %w", s.sw.Program().Profiles[c.lowered.ID].Info.Name, err)
		}
	}
	for _, c := range s.tables {
		if c == nil {
			continue
		}
		if err := c.writeChanges(s.sw); err != nil {
			return fmt.Errorf("kernel: table %q: %w", c.t.Info.Name, err)
		}
	}
	if b := s.controlValue(); !bytes.Equal(b, s.control) {
		if err := s.coll.Maps["control"].Put(uint32(0), b); err != nil {
			return fmt.Errorf("kernel: control: %w", err)
		}
		s.control = b
	}
	for _, c := range s.tables {
		if c == nil {
			continue
		}
		if err := c.removeGone(s.sw); err != nil {
			return fmt.Errorf("kernel: table %q: %w", c.t.Info.Name, err)
		}
	}
	for _, c := range s.profiles {
		if err := c.removeUnreferenced(s.sw); err != nil {
			return fmt.Errorf("kernel: action profile %q: %w", s.sw.Program().Profiles[c.lowered.ID].Info.Name, err)
		}
	}
	s.changed = false
	return nil
}

// exceedsKernel reports whether the table has more entries than the kernel takes. They stay dirty then. A table with
// masks has those apart that do not fit.
func (c *tableCopy) exceedsKernel(sw *interp.Switch) bool {
	return c.lowered.MaxMasks == 0 && sw.Len(c.lowered.ID) > c.lowered.MaxKeys
}

// writeChanges writes new and changed entries, and the masks, to the kernel's maps.
func (c *tableCopy) writeChanges(sw *interp.Switch) error {
	c.retryUnfitted(sw)
	if len(c.dirty) == 0 || c.exceedsKernel(sw) {
		return nil
	}
	keys, values := make(byteSlices, 0, len(c.dirty)), make(byteSlices, 0, len(c.dirty))
	buf := make([]byte, 0, len(c.dirty)*(c.lowered.KeySize+c.lowered.ValueSize))
	for k, place := range c.dirty {
		if place < 0 {
			continue
		}
		r := sw.Row(c.lowered.ID, place)
		at := len(buf)
		buf = c.lowered.appendValue(append(buf, k...), &r, place)
		keys, values = append(keys, buf[at:at+len(k)]), append(values, buf[at+len(k):])
	}
	if err := putAll(c.entries, keys, values); err != nil {
		return fmt.Errorf("entries: %w", err)
	}
	if c.lowered.MaxMasks == 0 {
		return nil
	}
	b, ok := c.maskArray(sw)
	if c.tooManyMasks = !ok; !ok || bytes.Equal(b, c.array) {
		return nil
	}
	first := c.lowered.MaxMasks - c.first
	keys, values = nil, nil
	for i := range len(b) / c.lowered.MaskSize {
		keys = append(keys, binary.NativeEndian.AppendUint32(nil, uint32(first+i)))
		values = append(values, b[i*c.lowered.MaskSize:(i+1)*c.lowered.MaskSize])
	}
	if err := putAll(c.masks, keys, values); err != nil {
		return fmt.Errorf("masks: %w", err)
	}
	c.first, c.array = first, b
	return nil
}

// removeGone removes deleted entries from the kernel's maps.
func (c *tableCopy) removeGone(sw *interp.Switch) error {
	if len(c.dirty) == 0 || c.exceedsKernel(sw) {
		return nil
	}
	var keys byteSlices
	for k, place := range c.dirty {
		if place < 0 {
			keys = append(keys, []byte(k))
		}
	}
	if err := removeAll(c.entries, keys); err != nil {
		return fmt.Errorf("entries: %w", err)
	}
	if len(c.dirty) > 4096 { // a map does not shrink
		c.dirty = map[string]int{}
	}
	clear(c.dirty)
	return nil
}

// controlValue returns the control value for the switch's tables as they are.
func (s *Switch) controlValue() []byte {
	b := make([]byte, s.lowered.ControlSize)
	put := func(at int, v uint64) { binary.NativeEndian.PutUint64(b[at:], v) }
	put(0, s.clock)
	put(8, s.epoch)
	for _, c := range s.tables {
		if c == nil {
			continue
		}
		at := c.lowered.control
		if d, set := s.sw.DefaultRow(c.lowered.ID); set {
			put(at+controlDefault, uint64(d.Target)+1)
			if d.Kind != interp.ByAction || d.Metered {
				put(at+controlDefault, verdictUp)
			}
			for k, a := range d.Args {
				put(at+controlArgs+8*k, a)
			}
		}
		if c.exceedsKernel(s.sw) || c.tooManyMasks || len(c.oversized) > 0 {
			put(at+controlPassUp, 1)
		}
		if c.lowered.MaxMasks > 0 {
			put(at+controlFirst, uint64(c.first))
			put(at+controlMasks, uint64(len(c.array)/c.lowered.MaskSize))
		}
	}
	return b
}

// byteSlices are keys or values of a map, as its batch operations take them.
type byteSlices [][]byte

// MarshalBinary implements encoding.BinaryMarshaler.
func (p byteSlices) MarshalBinary() ([]byte, error) { return bytes.Join(p, nil), nil }

// putAll writes entries of a map, in one system call where the kernel has it (Linux 5.6).
func putAll(m *bpf.Map, keys, values byteSlices) error {
	if len(keys) > 1 {
		if _, err := m.BatchUpdate(keys, values, nil); !errors.Is(err, bpf.ErrNotSupported) {
			return err
		}
	}
	for i, k := range keys {
		if err := m.Put(k, values[i]); err != nil {
			return fmt.Errorf("%x: %w", k, err)
		}
	}
	return nil
}

// removeAll removes entries of a map, which it may not have.
func removeAll(m *bpf.Map, keys byteSlices) error {
	for len(keys) > 1 {
		n, err := m.BatchDelete(keys, nil)
		switch {
		case errors.Is(err, bpf.ErrKeyNotExist):
			keys = keys[n+1:]
			continue
		case errors.Is(err, bpf.ErrNotSupported):
		default:
			return err
		}
		break
	}
	for _, k := range keys {
		if err := m.Delete(k); err != nil && !errors.Is(err, bpf.ErrKeyNotExist) {
			return fmt.Errorf("%x: %w", k, err)
		}
	}
	return nil
}
