package importer

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/strictyaml"
	"github.com/ethereal-fabric/ethereal/testbed/workload"
)

// ErrFile is wrapped by every error about the content of a file.
var ErrFile = errors.New("import")

// MaxBytes is the size of the largest file that is read. A file in memory takes about 50 times its size.
const MaxBytes = 16 << 20

// Imported is the content of another program's files, converted for a scenario.
type Imported struct {
	Kind    string
	Files   []string
	Fabric  *fabric.Spec // nil: the files have no topology
	Servers *Servers
	Ranks   int // number of ranks of the workload; 0: the files have no workload
	Flows   []workload.Flow
	Jobs    []Job
	Cuts    []string // links that fail at the start
	Notes   []string // what could not be converted, with counts
}

// Servers is the number and wiring of the GPUs of a server, as in a scenario.
type Servers struct {
	GPUs      int             `yaml:"gpus"`
	Wiring    string          `yaml:"wiring,omitempty"`
	CrossRail string          `yaml:"cross_rail,omitempty"`
	Internal  fabric.LinkSpec `yaml:"internal,omitempty"`
}

// Options are the settings of an import that the input file does not contain.
type Options struct {
	Servers int         // number of servers, if the files describe one
	Ranks   int         // number of ranks, if the workload does not say it
	Starts  string      // unit of htsim's start times, us or ps; "": us, unless they are a second or more
	Rate    fabric.Rate // of NCCL's network interfaces without a speed; 0: the fabric's default
}

// fileFormat is a kind of files, and how one is recognised and read.
type fileFormat struct {
	kind, what string
	is         func(data []byte) bool
	read       func(f *inputFile, o Options, into *Imported) error
}

// formats returns all formats. Of two that recognise a file the first is meant.
func formats() []fileFormat {
	return []fileFormat{
		{"nccl", "a topology of NCCL (NCCL_TOPO_DUMP_FILE)", isXML("system"), readNCCLTopology},
		{"nccl", "graphs of NCCL (NCCL_GRAPH_DUMP_FILE)", isXML("graphs"), readNCCLGraphs},
		{"htsim", "a topology of htsim", firstWords("nodes", "tiers", "podsize"), readHtsimTopology},
		{"htsim", "a connection matrix of htsim", firstWords("nodes", "connections"), readHtsimMatrix},
		{"aicb", "a workload of AICB", isAICB, readAICB},
		{"simai", "a workload of SimAI", isSimAI, readSimAI},
		{"simai", "a topology of SimAI", isSimAITopology, readSimAITopology},
		{"hpcc", "a topology of HPCC's ns-3", isHPCCTopology, readHPCCTopology},
		{"hpcc", "flows of HPCC's ns-3", isHPCCFlows, readHPCCFlows},
	}
}

// Kinds returns the names of the kinds of files, sorted.
func Kinds() []string {
	var out []string
	for _, f := range formats() {
		out = append(out, f.kind)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Recognise returns the kind of a file, from its first bytes, and a description such as "a connection matrix of htsim".
func Recognise(data []byte) (kind, what string, ok bool) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	for _, f := range formats() {
		if f.is(data) {
			return f.kind, f.what, true
		}
	}
	return "", "", false
}

// RecogniseFile returns the kind of a file; ok is false for files that cannot be read, and for all but regular ones.
func RecogniseFile(path string) (kind, what string, ok bool) {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() { // opening a FIFO may wait for ever
		return "", "", false
	}
	in, err := os.Open(path)
	if err != nil {
		return "", "", false
	}
	defer func() { _ = in.Close() }() // it was only read
	head := make([]byte, 64<<10)
	n, _ := in.Read(head)
	return Recognise(head[:n])
}

// Read reads files of a kind: a workload, a topology, or one of each.
func Read(kind string, paths []string, o Options) (*Imported, error) {
	if !slices.Contains(Kinds(), kind) {
		return nil, fmt.Errorf("%w: kind %q is unknown; %s", ErrFile, kind, strictyaml.Choose(kind, Kinds()))
	}
	out := &Imported{Kind: kind}
	type part struct {
		fileFormat
		*inputFile
	}
	var parts []part
	for _, path := range paths {
		data, err := strictyaml.ReadLarge(path, MaxBytes)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFile, err)
		}
		data = bytes.TrimPrefix(data, []byte("\ufeff"))
		i := slices.IndexFunc(formats(), func(f fileFormat) bool { return f.kind == kind && f.is(data) })
		if i < 0 {
			if other, what, ok := Recognise(data); ok {
				return nil, fmt.Errorf("%w: %s is %s; write ethereal import %s %s", ErrFile, path, what, other, path)
			}
			return nil, fmt.Errorf("%w: %s: is nothing of %s that is read here; name %s", ErrFile, path, kind, readable(kind))
		}
		parts = append(parts, part{formats()[i], &inputFile{name: path, data: data, notes: &notCarriedList{}}})
		out.Files = append(out.Files, filepath.Base(path))
	}
	// Topologies first: ranks are numbered by them.
	slices.SortStableFunc(parts, func(a, b part) int { return b.topology() - a.topology() })
	var all notCarriedList
	order := map[int]int(nil)
	for i, p := range parts {
		if i > 0 && parts[i-1].what == p.what {
			return nil, fmt.Errorf("%w: %s and %s are both %s; name one", ErrFile, parts[i-1].name, p.name, p.what)
		}
		p.notes, p.rank = &all, order
		if err := p.read(p.inputFile, o, out); err != nil {
			return nil, err
		}
		order = p.rank
	}
	out.Notes = all.texts()
	if out.Fabric != nil && out.Ranks > 0 {
		f, err := fabric.New(*out.Fabric)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFile, err)
		}
		if f.Hosts() < out.Ranks {
			return nil, fmt.Errorf("%w: the workload has %d ranks, and the topology %d hosts; name files that belong together",
				ErrFile, out.Ranks, f.Hosts())
		}
	}
	return out, nil
}

// topology is 1 for a format that has a topology.
func (f fileFormat) topology() int {
	if strings.Contains(f.what, "topology") {
		return 1
	}
	return 0
}

// readable lists the files of a kind.
func readable(kind string) string {
	var out []string
	for _, f := range formats() {
		if f.kind == kind {
			out = append(out, f.what)
		}
	}
	return strings.Join(out, " or ")
}
