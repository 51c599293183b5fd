package daemon

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/ethereal-fabric/ethereal/controller/p4rt"
	"github.com/ethereal-fabric/ethereal/controller/targets"
)

// FileProgram names the files of one program, as its compiler wrote them. Paths
// are relative to the file that names them.
type FileProgram struct {
	P4Info string `yaml:"p4info"` // in text form
	JSON   string `yaml:"json"`   // BMv2 JSON; of v1model
	// Of the chip's compiler and assembler.
	Name    string   `yaml:"name"`    // default: ethereal
	BFRT    string   `yaml:"bf_rt"`   // bf-rt.json
	Context string   `yaml:"context"` // pipe/context.json
	Binary  string   `yaml:"binary"`  // pipe/tofino.bin
	Pipes   []uint32 `yaml:"pipes"`   // that run the program; none: all
}

// pipelines sets the pipeline of every target whose program the file names, and
// reports a target that needs one and has none.
func (f File) pipelines(c *Config) error {
	made := map[string]*p4rt.Pipeline{} // by profile
	for id, t := range c.Targets {
		name := t.Profile.Program.String()
		prog, ok := f.Programs[name]
		if !ok {
			if t.Profile.Program == targets.V1Model {
				continue
			}
			return fmt.Errorf("%w: programs: %s: missing; %s is a %s: name the p4info, bf_rt, context and binary that the compiler wrote of p4src/tna/ethereal.p4",
				ErrConfig, name, c.Core.Fabric.Name(id), t.Profile.Name)
		}
		p := made[t.Profile.Name]
		if p == nil {
			var err error
			if p, err = prog.load(f.dir, t.Profile); err != nil {
				return fmt.Errorf("%w: programs: %s: %w", ErrConfig, name, err)
			}
			made[t.Profile.Name] = p
		}
		t.Pipeline = p
		c.Targets[id] = t
	}
	return nil
}

func (p FileProgram) load(dir string, profile *targets.Profile) (*p4rt.Pipeline, error) {
	compiled := targets.Compiled{Name: p.Name, Pipes: p.Pipes}
	if compiled.Name == "" {
		compiled.Name = "ethereal"
	}
	var p4info []byte
	for _, part := range []struct {
		key, path string
		into      *[]byte
	}{
		{"p4info", p.P4Info, &p4info}, {"json", p.JSON, &compiled.JSON}, {"bf_rt", p.BFRT, &compiled.BFRT},
		{"context", p.Context, &compiled.Context}, {"binary", p.Binary, &compiled.Binary},
	} {
		if part.path == "" {
			continue // Pack says what it needs
		}
		path := part.path
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", part.key, err)
		}
		*part.into = b
	}
	if len(p4info) == 0 {
		return nil, fmt.Errorf("p4info: missing; the compiler writes it with --p4runtime-files")
	}
	info, err := p4rt.ParseP4Info(p4info)
	if err != nil {
		return nil, err
	}
	blob, err := profile.Pack(compiled)
	if err != nil {
		return nil, err
	}
	return p4rt.NewPipeline(info, blob, profile.Lacks...)
}
