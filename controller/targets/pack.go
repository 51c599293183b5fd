package targets

import (
	"encoding/json"
	"fmt"
	"strings"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
)

// Compiled is a compiler's output for a program.
type Compiled struct {
	Name string // name of the P4 program, which the chip's file formats contain
	// JSON is the BMv2 JSON, for v1model targets.
	JSON []byte
	// BFRT and the fields after it are from Tofino's compiler and assembler: BF-RT schema (bf-rt.json), context
	// (context.json) and binary (tofino.bin) of the one pipeline, and the pipes that run it.
	BFRT, Context, Binary []byte
	Pipes                 []uint32
	// Info is the program's P4Info, to which the rest must fit; nil: not compared.
	Info *p4config.P4Info
}

// UncompiledError says which files of a chip's compiler are missing. The files that exist are right.
type UncompiledError struct {
	Missing []string // keys of the targets file whose files are missing
}

// Error implements error.
func (e *UncompiledError) Error() string {
	return fmt.Sprintf("%v: device config: %s missing; the chip's compiler writes it", ErrProfile, strings.Join(e.Missing, ", "))
}

// Unwrap returns [ErrProfile].
func (e *UncompiledError) Unwrap() error { return ErrProfile }

// PackJSON returns the device config of targets that take BMv2 JSON.
func PackJSON(c Compiled) ([]byte, error) {
	if !json.Valid(c.JSON) {
		return nil, fmt.Errorf("%w: device config: %d bytes that are not the BMv2 JSON p4c writes (-o FILE.json)", ErrProfile, len(c.JSON))
	}
	return c.JSON, nil
}
