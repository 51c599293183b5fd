package targets

import (
	"encoding/json"
	"fmt"
)

// Compiled is a compiler's output for a program.
type Compiled struct {
	Name string // the program's name; used by the chip's formats
	// JSON is the BMv2 JSON, for v1model targets.
	JSON []byte
	// The following fields are from the chip's compiler and assembler: the BF-RT schema (bf-rt.json), the context
	// (context.json) and the binary (tofino.bin) of the one pipeline, and the pipes that run it.
	BFRT, Context, Binary []byte
	Pipes                 []uint32
}

// PackJSON returns the device config of targets that take BMv2 JSON.
func PackJSON(c Compiled) ([]byte, error) {
	if !json.Valid(c.JSON) {
		return nil, fmt.Errorf("%w: device config: %d bytes that are not the BMv2 JSON p4c writes (-o FILE.json)", ErrProfile, len(c.JSON))
	}
	return c.JSON, nil
}
