package workload

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/strictyaml"
)

// workloadFile is a workload file; it has exactly one of the keys.
type workloadFile struct {
	Jobs    []jobSpec      `yaml:"jobs"`
	GPT     *GPT           `yaml:"gpt"`
	Chakra  *Chakra        `yaml:"chakra"`
	Matrix  *trafficMatrix `yaml:"matrix"`
	Flows   []Flow         `yaml:"flows"`
	Poisson *poisson       `yaml:"poisson"`
}

// Keys returns the top-level keys of workload files. A file has exactly one of them.
func Keys() []string { return strictyaml.KeysOf(workloadFile{}) }

// keyList returns [Keys] for display.
func keyList() string {
	k := Keys()
	return strings.Join(k[:len(k)-1], ", ") + " and " + k[len(k)-1]
}

// Place is what a program depends on of the fabric on which it runs: its ranks, their link rate and a seed.
type Place struct {
	Ranks int         // of the fabric; 0: as many as the file names
	Rate  fabric.Rate // of a rank's link to the fabric; 0: unknown
	Seed  uint64      // seed of the program's random choices
}

// PlaceOn returns the place of a fabric, with the seed for what the program draws at random.
func PlaceOn(f *fabric.Fabric, seed uint64) Place {
	return Place{Ranks: f.Hosts(), Rate: f.Spec().HostLink.Rate * fabric.Rate(f.Planes()), Seed: seed}
}

// Load reads a workload file for a place. The program may use fewer ranks: the others do nothing. Errors about content
// are [strictyaml.Errors].
func Load(path string, on Place) (*Program, error) {
	data, err := strictyaml.ReadLarge(path, maxFlowBytes)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w; name a workload file", err)
	}
	if err != nil {
		return nil, fmt.Errorf("workload: %w", err)
	}
	ranks := on.Ranks
	p, err := parse(path, data, on)
	if err != nil {
		return nil, err
	}
	for len(p.Ranks) < ranks {
		p.Ranks = append(p.Ranks, nil)
	}
	p.Name = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	_, _, err = p.link()
	return p, err
}

func parse(path string, data []byte, on Place) (*Program, error) {
	ranks := on.Ranks
	var f workloadFile
	d := strictyaml.New(path, nil)
	d.Values = maxFlowValues
	if root := d.Document(data, "one of the keys "+keyList()); root != nil {
		d.Value(root, &f, "")
	}
	given := 0
	for _, v := range reflect.ValueOf(f).Fields() {
		if !v.IsNil() {
			given++
		}
	}
	if d.OK() && given != 1 {
		d.Complain("", fmt.Sprintf("it has %d of %s", given, keyList()), "write one of them")
	}
	if !d.OK() {
		return nil, d.Err()
	}
	p := &Program{}
	key := "jobs"
	var err error
	switch {
	case f.GPT != nil:
		key = "gpt"
		f.GPT.complain(func(k, problem, remedy string) { d.Complain(strictyaml.Join("gpt", k), problem, remedy) })
		if d.OK() {
			p, err = f.GPT.Program()
		}
	case f.Chakra != nil:
		key = "chakra.trace"
		f.Chakra.complain(d)
		if d.OK() {
			p, err = f.Chakra.Program()
		}
	case f.Matrix != nil:
		key = "matrix.file"
		if d.Given("matrix.unit") && f.Matrix.Unit < 1 || f.Matrix.Unit > 1<<30 {
			d.Complain("matrix.unit", fmt.Sprintf("%v is outside 1B to 1GiB", f.Matrix.Unit), "write for example 14336B")
			break
		}
		p, err = f.Matrix.program(d.RelativePath(f.Matrix.File))
	case f.Poisson != nil:
		key = "poisson"
		p.Random, p.Ranks = true, make([][]Op, max(2, ranks))
		f.Poisson.add(p, on, d)
	case f.Flows != nil:
		key = "flows"
		p.Ranks = make([][]Op, cmp.Or(ranks, max(2, flowRanks(f.Flows))))
		addFlows(p, f.Flows, d)
	default:
		most := ranks
		if most == 0 {
			most = max(2, f.ranks())
		}
		p.Ranks = make([][]Op, most)
		for i, j := range f.Jobs {
			j.add(p, i, on.Seed, fmt.Sprintf("jobs[%d]", i), d)
		}
	}
	if err != nil {
		problem, remedy, _ := strings.Cut(strings.TrimPrefix(err.Error(), ErrProgram.Error()+": "), "; ")
		d.Complain(key, problem, cmp.Or(remedy, "name the PREFIX of the trace's files PREFIX.0.et, PREFIX.1.et, ..."))
		return nil, d.Err()
	}
	if d.OK() && ranks > 0 && len(p.Ranks) > ranks {
		d.Complain(key, fmt.Sprintf("it has %d ranks, and the fabric %d", len(p.Ranks), ranks), "use a larger fabric")
	}
	return p, d.Err()
}

// complain checks the keys, and makes paths relative to the folder of the program.
func (c *Chakra) complain(d *strictyaml.Decoder) {
	c.Trace, c.Groups = d.RelativePath(c.Trace), d.RelativePath(c.Groups)
	flops, memory := d.Given("chakra.teraflops"), d.Given("chakra.memory_bandwidth")
	switch {
	case flops && !memory:
		d.Complain("chakra.teraflops", "it is without memory_bandwidth", "write that as well, for example memory_bandwidth: 3350GB")
	case memory && !flops:
		d.Complain("chakra.memory_bandwidth", "it is without teraflops", "write that as well, for example teraflops: 300")
	case flops && !(c.TeraFLOPS > 0):
		d.Complain("chakra.teraflops", fmt.Sprintf("%v is not above 0", c.TeraFLOPS), "write for example 300")
	case memory && c.MemoryBandwidth < 1:
		d.Complain("chakra.memory_bandwidth", fmt.Sprintf("%v is not above 0", c.MemoryBandwidth), "write for example 3350GB")
	}
}

// TotalBytes returns the payload of all messages.
func (p *Program) TotalBytes() (int64, error) {
	all, err := p.Traffic()
	sum := int64(0)
	for _, s := range all {
		sum += s.Bytes
	}
	return sum, err
}
