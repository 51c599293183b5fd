package scenario

import (
	"errors"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/strictyaml"
	"github.com/ethereal-fabric/ethereal/roce/transport"
	"github.com/ethereal-fabric/ethereal/testbed/workload"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// collectiveKinds returns the possible kinds of a collective.
func collectiveKinds() []string { return append(collective.Kinds(), Workload) }

// checkWorkload checks a collective of kind workload, its file included.
func (c Collective) checkWorkload(path string, f *fabric.Fabric, bad reportError) {
	if alone := (Collective{Kind: c.Kind, File: c.File}); c != alone {
		bad(path, "a workload has a file and nothing else", "say the rest in the file")
		return
	}
	if c.File == "" {
		bad(path+".file", "is missing", "name a workload file relative to this one")
		return
	}
	if f == nil {
		return
	}
	p, err := workload.Load(c.File, workload.PlaceOn(f, 1))
	if err != nil {
		es, ok := errors.AsType[strictyaml.Errors](err)
		if !ok {
			problem, remedy, _ := strings.Cut(err.Error(), "; ")
			bad(path+".file", problem, remedy)
		}
		for _, e := range es {
			at := *e // the error names its own place
			at.Remedy = ""
			bad(path+".file", at.Error(), e.Remedy)
		}
		return
	}
	all, err := p.Traffic()
	if err == nil && len(all) == 0 {
		bad(path+".file", "its ranks send nothing", "name a workload with messages")
	}
	for _, s := range all {
		if s.Bytes > transport.MaxMessage {
			bad(path+".file", "it has a message of more than 2GiB", "use smaller collectives, or more ranks")
			return
		}
	}
}
