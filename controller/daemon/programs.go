package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ethereal-fabric/ethereal/controller/p4rt"
	"github.com/ethereal-fabric/ethereal/controller/targets"
	"github.com/ethereal-fabric/ethereal/internal/strictyaml"
)

// FileProgram names the files of one program, as its compiler wrote them. Paths are relative to the file that
// contains them.
type FileProgram struct {
	P4Info string `yaml:"p4info"` // file with the P4Info, in protobuf's text form
	JSON   string `yaml:"json"`   // path of the BMv2 JSON of the program, for v1model
	// The following files are from the chip's compiler and assembler.
	Name    string   `yaml:"name"`    // default: ethereal
	BFRT    string   `yaml:"bf_rt"`   // path of bf-rt.json, the compiler's table schema, for tna
	Context string   `yaml:"context"` // path of pipe/context.json, the compiler's layout, for tna
	Binary  string   `yaml:"binary"`  // path of pipe/tofino.bin, the compiled program, for tna
	Pipes   []uint32 `yaml:"pipes"`   // numbers of the chip's pipes that run the program; empty: all
}

// pipelines sets the pipeline of every target whose program the file names. It reports a target whose required
// program is missing.
func (f File) pipelines(c *Config, say complain) {
	for _, name := range slices.Sorted(maps.Keys(f.Programs)) {
		if known := f.kinds().Programs(); !slices.Contains(known, name) {
			say("programs."+name, "is the program of no kind of switch", strictyaml.Choose(name, known))
		}
	}
	type result struct {
		p  *p4rt.Pipeline
		ok bool
	}
	made := map[string]result{} // by profile
	for _, id := range slices.Sorted(maps.Keys(c.Targets)) {
		t := c.Targets[id]
		if t.Profile == nil {
			continue // reported already
		}
		r, tried := made[t.Profile.Name]
		if !tried {
			r.p, r.ok = f.pipeline(c, c.Core.Fabric.Name(id), t.Profile, say)
			made[t.Profile.Name] = r
		}
		if r.ok {
			t.Pipeline = r.p
			c.Targets[id] = t
		}
	}
}

// pipeline returns the program of a kind of switch, of which one is named; nil if the controller's own fits.
func (f File) pipeline(c *Config, of string, profile *targets.Profile, say complain) (*p4rt.Pipeline, bool) {
	program := profile.Program()
	path := "programs." + program.Name
	prog, ok := f.Programs[program.Name]
	switch {
	case !ok && program.Files == "":
		return nil, true
	case !ok:
		say(path, fmt.Sprintf("missing; %s is a %s", of, profile.Name),
			"name the "+program.Files)
		return nil, false
	}
	p, err := prog.load(c, f.dir, profile)
	if err == nil {
		return p, true
	}
	problem := strings.ReplaceAll(err.Error(), targets.ErrProfile.Error()+": ", "")
	if key, rest, ok := strings.Cut(problem, ": "); ok && slices.Contains([]string{"p4info", "json", "bf_rt", "context", "binary"}, key) {
		path, problem = path+"."+key, rest
	}
	problem, remedy, _ := strings.Cut(problem, "; ")
	say(path, problem, cmp.Or(remedy, "name a file that the compiler wrote, relative to this one"))
	return nil, false
}

func (p FileProgram) load(c *Config, dir string, profile *targets.Profile) (*p4rt.Pipeline, error) {
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
			continue // Pack reports what is missing
		}
		path := part.path
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		b, err := os.ReadFile(path)
		switch {
		case errors.Is(err, fs.ErrNotExist) && part.key != "p4info" && part.key != "json":
			continue // the chip's compiler may run later
		case err != nil:
			return nil, fmt.Errorf("%s: %w", part.key, err)
		case len(b) == 0:
			return nil, fmt.Errorf("%s: %s is empty", part.key, path)
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
	return p4rt.PipelineFor(profile, c.Core.Fabric, info, compiled)
}

// Unchecked returns, for each program with missing compiler output, which files are missing and which checks were
// skipped.
func (c *Config) Unchecked() []string {
	var notes []string
	for _, id := range slices.Sorted(maps.Keys(c.Targets)) {
		t := c.Targets[id]
		if t.Pipeline == nil || len(t.Pipeline.Uncompiled()) == 0 {
			continue
		}
		note := fmt.Sprintf("programs.%s has no %s: not checked are whether it fits the chip, and whether switches run it",
			t.Kind().Program().Name, strings.Join(t.Pipeline.Uncompiled(), ", "))
		if !slices.Contains(notes, note) {
			notes = append(notes, note)
		}
	}
	return notes
}
