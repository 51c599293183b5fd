package tofino

import (
	"encoding/binary"
	"fmt"
)

// chipWrites are writes to registers and memories of the chip, in the binary format that the assembler puts out and the
// harness loads: p4c, backends/tofino/bf-asm, `write_regs`, and input.cpp of the harness. Numbers are little-endian.
type chipWrites []byte

// register writes a register at its address on the chip's bus.
func (w *chipWrites) register(address, value uint32) {
	*w = binary.LittleEndian.AppendUint32(*w, 'r'<<24)
	*w = binary.LittleEndian.AppendUint32(*w, address)
	*w = binary.LittleEndian.AppendUint32(*w, value)
}

// memory writes a word of 128 bits at its address, in words.
func (w *chipWrites) memory(address, low, high uint64) {
	*w = binary.LittleEndian.AppendUint32(*w, 'd'<<24)
	*w = binary.LittleEndian.AppendUint64(*w, address)
	*w = binary.LittleEndian.AppendUint32(*w, 128)
	*w = binary.LittleEndian.AppendUint32(*w, 1)
	*w = binary.LittleEndian.AppendUint64(*w, low)
	*w = binary.LittleEndian.AppendUint64(*w, high)
}

// write has the model carry out writes.
func (m *Model) write(w chipWrites) error {
	if len(w) == 0 {
		return nil
	}
	if err := m.file.Truncate(0); err != nil {
		return fmt.Errorf("tofino: model: %w", err)
	}
	if _, err := m.file.WriteAt(w, 0); err != nil {
		return fmt.Errorf("tofino: model: %w", err)
	}
	_, err := m.Do("load /dev/fd/3")
	return err
}

// Kinds of memory of a stage: mau-memory.h of the model, as are the shifts.
const (
	memorySRAM = 0
	memoryMap  = 1
)

// unitAddress is the address of a word in a memory unit of a stage, twelve units to a row.
func unitAddress(stage, kind, unit, index int) uint64 {
	const pipes, physical, unitsPerRow = 0x200000000000 / 16, 2 << 30, 12
	return pipes | uint64(stage)<<33 | physical | uint64(kind<<18|unit/unitsPerRow<<14|unit%unitsPerRow<<10|index)
}
