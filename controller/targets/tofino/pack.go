package tofino

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ethereal-fabric/ethereal/controller/targets"
)

// checkCompiled returns an error if one of the artefacts for a chip is not what its compiler wrote of the P4Info's
// program, and otherwise a [targets.UncompiledError] if one is missing.
func checkCompiled(c targets.Compiled, chip string) error {
	if c.Name == "" {
		return fmt.Errorf("%w: device config: the program has no name", targets.ErrProfile)
	}
	missing := &targets.UncompiledError{}
	for _, part := range []struct {
		key  string
		data []byte
		err  func() error
	}{
		{"bf_rt", c.BFRT, func() error { return checkTables(c.BFRT, c.Info, "") }},
		{"context", c.Context, func() error { return checkTables(c.Context, c.Info, chip) }},
		{"binary", c.Binary, func() error { return checkBinary(c.Binary) }},
	} {
		if len(part.data) == 0 {
			missing.Missing = append(missing.Missing, part.key)
		} else if err := part.err(); err != nil {
			return fmt.Errorf("%s: %w", part.key, err)
		}
	}
	if len(missing.Missing) > 0 {
		return missing
	}
	return nil
}

// checkTables checks that bf-rt.json, or context.json of a chip, has the tables of a P4Info.
func checkTables(text []byte, info *p4config.P4Info, chip string) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{targets.ErrProfile}, args...)...)
	}
	var file struct {
		Target string `json:"target"`
		Tables []struct {
			Name string `json:"name"`
		} `json:"tables"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return bad("is not JSON that the chip's compiler wrote: %v", err)
	}
	if len(file.Tables) == 0 {
		return bad("has no tables; name the file that the chip's compiler wrote")
	}
	if chip != "" && file.Target != chip {
		return bad("is of a program for the chip %q, not %q; compile for the switch's chip, or correct its profile", file.Target, chip)
	}
	have := map[string]bool{}
	for _, t := range file.Tables {
		have[strings.TrimPrefix(t.Name, pipelineName+".")] = true
	}
	for _, t := range info.GetTables() {
		if name := t.GetPreamble().GetName(); !have[strings.TrimPrefix(name, pipelineName+".")] {
			return bad("has no table %s of the P4Info; name files of one run of the compiler", name)
		}
	}
	return nil
}

// checkBinary returns an error if a file cannot be tofino.bin.
func checkBinary(b []byte) error {
	if json.Valid(b) {
		return fmt.Errorf("%w: is JSON, not the chip's binary; name pipe/tofino.bin", targets.ErrProfile)
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
func packStratum(c targets.Compiled) []byte {
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
	return bytesField(out, fieldProfiles, profile)
}

// packPI makes the packing of p4lang/PI: name, binary and context, each after its length in 32 bits, little-endian.
func packPI(c targets.Compiled) []byte {
	var out []byte
	for _, part := range [][]byte{[]byte(c.Name), c.Binary, c.Context} {
		out = binary.LittleEndian.AppendUint32(out, uint32(len(part)))
		out = append(out, part...)
	}
	return out
}
