package workload

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/strictyaml"
	"github.com/ethereal-fabric/ethereal/internal/wirefields"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// Types of node; see chakra.proto.
const (
	nodeInvalid    = 0
	nodeMetadata   = 1
	nodeCompute    = 4
	nodeSend       = 5
	nodeRecv       = 6
	nodeCollective = 7
)

// Field numbers; see chakra.proto.
const (
	fieldID       = 1
	fieldName     = 2
	fieldType     = 3
	fieldCtrl     = 4
	fieldData     = 5
	fieldDuration = 7
	fieldInputs   = 8
	fieldAttr     = 10
)

// Limits of traces.
const (
	maxMessage  = 16 << 20 // bytes per node
	maxNodes    = 4 << 20  // per rank
	maxDuration = 1 << 40  // us: longer than a run can be is refused later
)

// chakraNode is the part of a Chakra node that is read.
type chakraNode struct {
	id       uint64
	name     string
	kind     uint64
	deps     []uint64 // data dependencies
	ctrl     []uint64 // control dependencies
	duration uint64   // us
	ints     map[string]int64
	texts    map[string]string
	inputs   string // of metadata: the values of its inputs
}

// Chakra is the files of a Chakra trace (MLCommons), and how to read them. Paths are relative to the workload file.
type Chakra struct {
	Trace     string `yaml:"trace" required:"the PREFIX of PREFIX.0.et"`
	Algorithm string `yaml:"algorithm"` // of all-reduces and other collectives; direct if empty
	Groups    string `yaml:"groups"`    // file of the groups of ranks; if empty, PREFIX.groups.json if it exists

	// TeraFLOPS and MemoryBandwidth are a GPU's, for computations that have a number of operations and no duration:
	// both or none.
	TeraFLOPS       float64      `yaml:"teraflops"`
	MemoryBandwidth fabric.Bytes `yaml:"memory_bandwidth"` // bytes per second
}

// Program reads the trace: files PREFIX.0.et, PREFIX.1.et, ..., and that of the groups. Dependencies on missing nodes
// are left out, as astra-sim does, and listed in the program's notes. Errors about content wrap [ErrProgram].
func (c Chakra) Program() (*Program, error) {
	prefix := c.Trace
	if known := collective.Algorithms(collective.AllReduce); c.Algorithm != "" && !slices.Contains(known, c.Algorithm) {
		remedy, renamed := collective.Renamed(c.Algorithm)
		if !renamed {
			remedy = "write one of " + strings.Join(known, ", ")
		}
		return nil, fmt.Errorf("%w: algorithm: all-reduce has no %q; %s", ErrProgram, c.Algorithm, remedy)
	}
	groups, err := c.readGroups()
	if err != nil {
		return nil, err
	}
	files, err := rankFiles(prefix)
	if err != nil {
		return nil, err
	}
	var ranks [][]chakraNode
	for rank := range files {
		path := fmt.Sprintf("%s.%d.et", prefix, rank)
		file, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("workload: %w; a trace is PREFIX.0.et, PREFIX.1.et, ...: name PREFIX", err)
		}
		nodes, err := readNodes(file)
		if e := file.Close(); err == nil {
			err = e
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrProgram, path, err)
		}
		ranks = append(ranks, nodes)
	}
	p := &Program{Name: "chakra", Ranks: make([][]Op, len(ranks))}
	for r, nodes := range ranks {
		in := rankReader{c, r, len(ranks), groups, &p.notes}
		in.tidy(nodes)
		if p.Ranks[r], err = in.operations(nodes); err != nil {
			return nil, fmt.Errorf("%w: %s.%d.et: %w", ErrProgram, prefix, r, err)
		}
	}
	if _, _, err := p.link(); err != nil { // rank R is of the file PREFIX.R.et
		return nil, fmt.Errorf("%w; its file, %s.RANK.et, or another's may be of another trace or rank", err, prefix)
	}
	return p, nil
}

// rankFiles returns the number of a trace's files. They have the numbers from 0 on.
func rankFiles(prefix string) (int, error) {
	dir, base := filepath.Split(prefix)
	entries, err := os.ReadDir(cmp.Or(dir, "."))
	if err != nil {
		return 0, fmt.Errorf("workload: %w; a trace is PREFIX.0.et, PREFIX.1.et, ...: name PREFIX", err)
	}
	var numbers []int
	for _, e := range entries {
		text, ok := strings.CutPrefix(e.Name(), base+".")
		text, et := strings.CutSuffix(text, ".et")
		if n, err := strconv.Atoi(text); ok && et && err == nil && strconv.Itoa(n) == text && n >= 0 {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	for i, n := range numbers {
		if n != i {
			return 0, fmt.Errorf("%w: %s.%d.et is missing, and %s.%d.et is there; a trace has one file per rank", ErrProgram, prefix, i, prefix, n)
		}
	}
	if len(numbers) > collective.MaxRanks {
		return 0, fmt.Errorf("%w: %s: more than %d ranks", ErrProgram, prefix, collective.MaxRanks)
	}
	return max(len(numbers), 1), nil // without any, the first is opened, for its error
}

// readGroups reads the trace's groups. Only the file that the trace does not name may be missing.
func (c Chakra) readGroups() (map[string][]int, error) {
	if c.Groups == "" {
		return ReadGroups(c.Trace + ".groups.json")
	}
	if _, err := os.Stat(c.Groups); err != nil {
		return nil, fmt.Errorf("%w: groups: %w; name a JSON file with the ranks of each group", ErrProgram, err)
	}
	return ReadGroups(c.Groups)
}

// ReadGroups reads the groups of ranks of a trace, such as PREFIX.groups.json. A missing file has none.
func ReadGroups(path string) (map[string][]int, error) {
	data, err := strictyaml.ReadLarge(path, maxMessage)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("workload: %w", err)
	}
	var groups map[string][]int
	d := strictyaml.New(path, nil) // JSON is YAML
	d.Values = maxNodes
	if root := d.Document(data, `{"name": [ranks]}`); root != nil {
		d.Value(root, &groups, "")
	}
	return groups, d.Err()
}

// readNodes reads the messages of one file.
func readNodes(r io.Reader) ([]chakraNode, error) {
	in := bufio.NewReader(r)
	var out []chakraNode
	for first := true; ; first = false {
		size, err := binary.ReadUvarint(in)
		if errors.Is(err, io.EOF) {
			if first {
				return nil, errors.New("the file is empty; a trace begins with its metadata")
			}
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("message %d: length: %w", len(out), err)
		}
		if size > maxMessage || len(out) >= maxNodes {
			return nil, fmt.Errorf("message %d: %d bytes; at most %d nodes of %d bytes each are read", len(out), size, maxNodes, maxMessage)
		}
		// A wrong length costs no memory before its bytes arrive.
		text, err := io.ReadAll(io.LimitReader(in, int64(size)))
		if err != nil || uint64(len(text)) < size {
			return nil, fmt.Errorf("message %d: %d bytes of %d", len(out), len(text), size)
		}
		if first {
			continue // GlobalMetadata: it does not change what ranks do
		}
		n, err := parseNode(text)
		if err != nil {
			return nil, fmt.Errorf("node %d: %w", len(out), err)
		}
		out = append(out, n)
	}
}

func parseNode(b []byte) (chakraNode, error) {
	n := chakraNode{ints: map[string]int64{}, texts: map[string]string{}}
	err := wirefields.Each(b, func(field protowire.Number, typ protowire.Type, number uint64, text []byte) error {
		switch field {
		case fieldID:
			n.id = number
		case fieldName:
			n.name = string(text)
		case fieldType:
			n.kind = number
		case fieldDuration:
			n.duration = number
		case fieldInputs:
			return wirefields.Each(text, func(field protowire.Number, _ protowire.Type, _ uint64, text []byte) error {
				if field == 1 && n.kind == nodeMetadata {
					n.inputs = string(text)
				}
				return nil
			})
		case fieldCtrl, fieldData:
			to := &n.deps
			if field == fieldCtrl {
				to = &n.ctrl
			}
			if typ != protowire.BytesType {
				*to = append(*to, number)
				return nil
			}
			for len(text) > 0 { // packed
				v, size := protowire.ConsumeVarint(text)
				if size < 0 {
					return protowire.ParseError(size)
				}
				*to, text = append(*to, v), text[size:]
			}
		case fieldAttr:
			return n.attribute(text)
		}
		return nil
	})
	return n, err
}

// attribute reads an AttributeProto: any whole number, a truth value or a text.
func (n *chakraNode) attribute(b []byte) error {
	name := ""
	return wirefields.Each(b, func(field protowire.Number, _ protowire.Type, number uint64, text []byte) error {
		switch field {
		case 1:
			name = string(text)
		case 7, 9, 11, 13, 19, 21, 25, 27:
			n.ints[name] = int64(number)
		case 15, 17:
			n.ints[name] = protowire.DecodeZigZag(number)
		case 23:
			n.ints[name] = int64(int32(number))
		case 29:
			n.texts[name] = string(text)
		}
		return nil
	})
}

// tidy removes dependencies that would make a profiler's trace unusable: dependencies on missing nodes, and all control
// dependencies if some of them form a cycle. Profilers write calls as control dependencies, and an operation ends after
// those that it calls; astra-sim's feeder ignores them.
func (in rankReader) tidy(nodes []chakraNode) {
	in.dropDangling(nodes)
	if _, err := sorted(nodes); errors.Is(err, errCircle) {
		for i := range nodes {
			for _, d := range nodes[i].ctrl {
				in.note("dependencies on control make a circle and are left out", nodes[i], " waits for node %d", d)
			}
			nodes[i].ctrl = nil
		}
	}
}

var errCircle = errors.New("nodes wait for each other in a circle")

// dropDangling removes dependencies on missing nodes: profilers cut traces out of longer ones.
func (in rankReader) dropDangling(nodes []chakraNode) {
	known := make(map[uint64]bool, len(nodes))
	for _, n := range nodes {
		known[n.id] = true
	}
	for i := range nodes {
		n := &nodes[i]
		unknown := func(d uint64) bool {
			if !known[d] {
				in.note("dependencies on nodes that are not there are left out", *n, " waits for node %d", d)
			}
			return !known[d]
		}
		n.ctrl, n.deps = slices.DeleteFunc(n.ctrl, unknown), slices.DeleteFunc(n.deps, unknown)
	}
}

// sorted returns the nodes' indices in an order in which each follows its dependencies; otherwise by id.
func sorted(nodes []chakraNode) ([]int, error) {
	byID := make(map[uint64]int, len(nodes))
	for i, n := range nodes {
		if _, twice := byID[n.id]; twice {
			return nil, fmt.Errorf("two nodes have id %d", n.id)
		}
		byID[n.id] = i
	}
	waits, next := make([]int, len(nodes)), make([][]int, len(nodes))
	for i, n := range nodes {
		for _, d := range slices.Concat(n.ctrl, n.deps) {
			j := byID[d]
			waits[i]++
			next[j] = append(next[j], i)
		}
	}
	less := func(a, b int) int {
		if nodes[a].id < nodes[b].id {
			return -1
		}
		return 1
	}
	var ready, out []int
	for i := range nodes {
		if waits[i] == 0 {
			ready = append(ready, i)
		}
	}
	slices.SortFunc(ready, less)
	for len(ready) > 0 {
		i := ready[0]
		ready = ready[1:]
		out = append(out, i)
		for _, j := range next[i] {
			if waits[j]--; waits[j] == 0 {
				ready = append(ready, j)
			}
		}
	}
	if len(out) < len(nodes) {
		return nil, errCircle
	}
	return out, nil
}
