package targets

import (
	"encoding/binary"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// Compiled is what a compiler wrote of a program.
type Compiled struct {
	Name string // the program's; used by the chip's formats
	// JSON is the BMv2 JSON, for v1model targets.
	JSON []byte
	// Of the chip's compiler and assembler: the BF-RT schema (bf-rt.json), the
	// context (context.json) and the binary (tofino.bin) of the one pipeline, and
	// the pipes that run it.
	BFRT, Context, Binary []byte
	Pipes                 []uint32
}

func packJSON(c Compiled) ([]byte, error) {
	if !json.Valid(c.JSON) {
		return nil, fmt.Errorf("%w: device config: %d bytes that are not the BMv2 JSON p4c writes (-o FILE.json)", ErrProfile, len(c.JSON))
	}
	return c.JSON, nil
}

// packSAI is for PINS, which takes no program beside its P4Info, and for switches that execute sai_p4.
func packSAI(c Compiled) ([]byte, error) {
	if len(c.JSON) == 0 {
		return nil, nil
	}
	return packJSON(c)
}

// checkChip reports what of the chip's artefacts is missing.
func (c Compiled) checkChip() error {
	for _, part := range []struct {
		name string
		data []byte
		json bool
	}{
		{"bf-rt.json", c.BFRT, true}, {"pipe/context.json", c.Context, true}, {"pipe/tofino.bin", c.Binary, false},
	} {
		switch {
		case len(part.data) == 0:
			return fmt.Errorf("%w: device config: %s is missing or empty; it is in the folder that the compiler's -o names", ErrProfile, part.name)
		case part.json && !json.Valid(part.data):
			return fmt.Errorf("%w: device config: %s is not JSON", ErrProfile, part.name)
		}
	}
	if c.Name == "" {
		return fmt.Errorf("%w: device config: the program has no name", ErrProfile)
	}
	return nil
}

// Field numbers of Stratum's BfPipelineConfig and of its Profile.
const (
	fieldP4Name, fieldBFRT, fieldProfiles       = 1, 2, 3
	fieldProfileName, fieldContext, fieldConfig = 1, 2, 3
	fieldPipeScope                              = 4
	pipelineName                                = "pipe" // of the one in tna/ethereal.p4
)

// packStratum makes a BfPipelineConfig.
func packStratum(c Compiled) ([]byte, error) {
	if err := c.checkChip(); err != nil {
		return nil, err
	}
	bytesField := func(b []byte, n protowire.Number, v []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), v)
	}
	var profile, scope []byte
	profile = bytesField(profile, fieldProfileName, []byte(pipelineName))
	profile = bytesField(profile, fieldContext, c.Context)
	profile = bytesField(profile, fieldConfig, c.Binary)
	for _, p := range c.Pipes {
		scope = protowire.AppendVarint(scope, uint64(p))
	}
	if len(scope) > 0 {
		profile = bytesField(profile, fieldPipeScope, scope)
	}
	var out []byte
	out = bytesField(out, fieldP4Name, []byte(c.Name))
	out = bytesField(out, fieldBFRT, c.BFRT)
	return bytesField(out, fieldProfiles, profile), nil
}

// packPI makes the packing of p4lang/PI: name, binary and context, each after its
// length in 32 bits, little-endian.
func packPI(c Compiled) ([]byte, error) {
	if err := c.checkChip(); err != nil {
		return nil, err
	}
	var out []byte
	for _, part := range [][]byte{[]byte(c.Name), c.Binary, c.Context} {
		out = binary.LittleEndian.AppendUint32(out, uint32(len(part)))
		out = append(out, part...)
	}
	return out, nil
}
