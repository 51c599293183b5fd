package tofino

import (
	"encoding/binary"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ethereal-fabric/ethereal/controller/targets"
)

// check returns an error if one of the chip's artefacts is missing.
func check(c targets.Compiled) error {
	for _, part := range []struct {
		name string
		data []byte
		json bool
	}{
		{"bf-rt.json", c.BFRT, true}, {"pipe/context.json", c.Context, true}, {"pipe/tofino.bin", c.Binary, false},
	} {
		switch {
		case len(part.data) == 0:
			return fmt.Errorf("%w: device config: %s is missing or empty; it is in the folder that the compiler's -o names", targets.ErrProfile, part.name)
		case part.json && !json.Valid(part.data):
			return fmt.Errorf("%w: device config: %s is not JSON", targets.ErrProfile, part.name)
		}
	}
	if c.Name == "" {
		return fmt.Errorf("%w: device config: the program has no name", targets.ErrProfile)
	}
	return nil
}

// Field numbers of Stratum's BfPipelineConfig and of its Profile.
const (
	fieldP4Name, fieldBFRT, fieldProfiles       = 1, 2, 3
	fieldProfileName, fieldContext, fieldConfig = 1, 2, 3
	fieldPipeScope                              = 4
	pipelineName                                = "pipe" // the pipeline's name in tna/ethereal.p4
)

// packStratum makes a BfPipelineConfig.
func packStratum(c targets.Compiled) ([]byte, error) {
	if err := check(c); err != nil {
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

// packPI makes the packing of p4lang/PI: name, binary and context, each after its length in 32 bits, little-endian.
func packPI(c targets.Compiled) ([]byte, error) {
	if err := check(c); err != nil {
		return nil, err
	}
	var out []byte
	for _, part := range [][]byte{[]byte(c.Name), c.Binary, c.Context} {
		out = binary.LittleEndian.AppendUint32(out, uint32(len(part)))
		out = append(out, part...)
	}
	return out, nil
}
