package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// Values of comm_type that are carried out as other collectives.
const (
	commBroadcast = 5
	commBarrier   = 9
)

// chakraKinds returns the kinds of collective by CollectiveCommType.
func chakraKinds() map[int64]string {
	return map[int64]string{0: collective.AllReduce, 2: collective.AllGather, 6: collective.AllToAll, 7: collective.ReduceScatter, 8: collective.ReduceScatter}
}

// vectorBytes converts comm_size, the bytes that one rank contributes, to [collective.Spec].Bytes. The two differ for
// an all-gather, whose ranks each contribute a share of the vector that all have at the end.
func vectorBytes(what string, commSize int64, ranks int) (int64, error) {
	if what != collective.AllGather {
		return commSize, nil
	}
	if most := math.MaxInt64 / int64(ranks); commSize > most {
		return 0, fmt.Errorf("comm_size is %d; at most %d of each of %d ranks", commSize, most, ranks)
	}
	return commSize * int64(ranks), nil
}

// contributedBytes is the inverse of [vectorBytes]. It rounds down, as [collective] does with shares.
func contributedBytes(what string, bytes int64, ranks int) int64 {
	if what != collective.AllGather {
		return bytes
	}
	return bytes / int64(ranks)
}

// rankReader is the state with which a rank's nodes are converted to operations.
type rankReader struct {
	Chakra
	rank, ranks int
	groups      map[string][]int
	notes       *[]note
}

// note counts a difference of a node. Its rank, its name and the text say which was the first.
func (in rankReader) note(what string, n chakraNode, text string, args ...any) {
	for i := range *in.notes {
		if known := &(*in.notes)[i]; known.what == what {
			known.count++
			return
		}
	}
	first := fmt.Sprintf("rank %d, node %d (%s)", in.rank, n.id, n.name) + fmt.Sprintf(text, args...)
	*in.notes = append(*in.notes, note{what, 1, first})
}

// operations converts the nodes of a rank to operations. Nodes need not be in the order of their dependencies;
// memory, storage and the like take their duration.
func (in rankReader) operations(nodes []chakraNode) ([]Op, error) {
	order, err := sorted(nodes)
	if err != nil {
		return nil, err
	}
	if in.groups, err = in.ownGroups(nodes); err != nil {
		return nil, err
	}
	place := make(map[uint64]int, len(nodes))
	ops := make([]Op, 0, len(nodes))
	for _, i := range order {
		n := nodes[i]
		op, err := in.operation(n)
		if err != nil {
			return nil, fmt.Errorf("node %d (%s): %w", n.id, n.name, err)
		}
		for _, d := range slices.Concat(n.ctrl, n.deps) {
			op.After = append(op.After, place[d])
		}
		place[n.id] = len(ops)
		ops = append(ops, op)
	}
	return ops, nil
}

func (in rankReader) operation(n chakraNode) (op Op, err error) {
	switch n.kind {
	case nodeSend, nodeRecv:
		return in.message(n)
	case nodeInvalid, nodeMetadata:
		return Op{Kind: Compute}, nil
	case nodeCollective:
		op, err = in.collective(n)
	case nodeCompute:
		if op, err = n.compute(); n.duration == 0 && n.ints["num_ops"] > 0 {
			op, err = in.roofline(n)
		}
	default:
		op, err = n.compute()
	}
	op.Unit = n.unit(op)
	return op, err
}

// unit returns what carries an operation of the node out, as [Op].Unit: 1 is the CPU, and the others are streams of the
// GPU. A GPU runs one kernel of a stream at a time, and ASTRA-sim (HardwareResource.cc) one operation of the CPU, of
// whatever type. A trace without streams has one.
func (n chakraNode) unit(op Op) int {
	switch {
	case op.Kind == Compute && n.ints["is_cpu_op"] != 0:
		return 1
	case n.kind == nodeCompute:
		return 2 + int(max(0, n.ints["stream"]))
	}
	return 0
}

// compute returns a computation of the node's duration.
func (n chakraNode) compute() (Op, error) {
	if n.duration > maxDuration {
		return Op{}, fmt.Errorf("a duration of %d us", n.duration)
	}
	return Op{Kind: Compute, Duration: fabric.Time(n.duration) * fabric.Microsecond}, nil
}

// roofline returns a computation that has no duration: it lasts as long as its operations take, or as the bytes of its
// tensors take to and from memory, whichever is longer.
func (in rankReader) roofline(n chakraNode) (Op, error) {
	ops, size := n.ints["num_ops"], n.ints["tensor_size"]
	if in.TeraFLOPS == 0 {
		return Op{}, fmt.Errorf("it has num_ops (%d) and no duration; "+
			"write teraflops and memory_bandwidth of a GPU, for example teraflops: 300, memory_bandwidth: 3350GB", ops)
	}
	seconds := max(float64(ops)/(in.TeraFLOPS*1e12), float64(max(size, 0))/float64(in.MemoryBandwidth))
	if !(seconds <= maxDuration*1e-6) {
		return Op{}, fmt.Errorf("num_ops is %d and tensor_size %d, which take %v s; write a larger teraflops or memory_bandwidth",
			ops, size, seconds)
	}
	return Op{Kind: Compute, Duration: fabric.Time(seconds * float64(fabric.Second))}, nil
}

// message returns a send or a receive.
func (in rankReader) message(n chakraNode) (Op, error) {
	op := Op{Kind: Send, Bytes: n.ints["comm_size"], Tag: uint64(n.ints["comm_tag"])}
	own, other := "comm_src", "comm_dst"
	if n.kind == nodeRecv {
		op.Kind, own, other = Recv, other, own
	}
	peer, given := n.ints[other]
	if !given {
		return Op{}, fmt.Errorf("it has no %s, the other rank", other)
	}
	if r, given := n.ints[own]; given && r != int64(in.rank) {
		return Op{}, fmt.Errorf("%s is %d, and the file is rank %d's: is it a copy of rank %d's?", own, r, in.rank, r)
	}
	if peer < 0 || peer >= int64(in.ranks) || peer == int64(in.rank) {
		return Op{}, fmt.Errorf("%s is %d; the trace has files of ranks 0 to %d, and this is rank %d's", other, peer, in.ranks-1, in.rank)
	}
	op.Peer = int(peer)
	return op, nil
}

func (in rankReader) collective(n chakraNode) (Op, error) {
	kind, typed := n.ints["comm_type"]
	size, sized := n.ints["comm_size"]
	launch := n.ints["is_cpu_op"] != 0
	switch {
	case !typed && (!sized || launch), !sized && launch:
		in.note("calls of collectives without comm_type or comm_size take their duration", n, "")
		return n.compute()
	case !typed:
		return Op{}, errors.New("it has no comm_type, the kind of collective")
	case !sized && kind != commBarrier:
		return Op{}, errors.New("it has no comm_size, the bytes that a rank contributes")
	case size < 0:
		return Op{}, fmt.Errorf("comm_size is %d; at least 0", size)
	}
	group, err := in.group(n)
	if err != nil {
		return Op{}, err
	}
	if len(group) == 1 {
		return Op{Kind: Compute}, nil // nothing to exchange
	}
	op := Op{Kind: Collective, Group: group}
	switch kind {
	case commBroadcast: // in NCCL's ring all ranks but the last pass all of it on
		in.note("broadcasts are sent as all-gathers of the same bytes", n, "")
		op.What, op.Bytes = collective.AllGather, size
	case commBarrier:
		op.What = collective.AllReduce
	default:
		known := false
		if op.What, known = chakraKinds()[kind]; !known {
			return Op{}, fmt.Errorf("comm_type %d is not carried out; "+
				"all-reduce, all-gather, broadcast, all-to-all, reduce-scatter and barrier are", kind)
		}
		if op.Bytes, err = vectorBytes(op.What, size, len(group)); err != nil {
			return Op{}, err
		}
	}
	if least := int64(len(group)); op.Bytes < least {
		if kind != commBarrier {
			in.note("collectives of fewer bytes than ranks are sent with one byte a rank", n, ", %d bytes", op.Bytes)
		}
		op.Bytes = least
	}
	if slices.Contains(collective.Algorithms(op.What), in.Algorithm) {
		op.Algorithm = in.Algorithm
	}
	return op, nil
}

// ownGroups returns the groups that the rank's collectives name: those of the trace's file of groups, and those that
// the rank itself has made, as PyTorch writes them. A name may mean other ranks on another rank.
func (in rankReader) ownGroups(nodes []chakraNode) (map[string][]int, error) {
	out := maps.Clone(in.groups)
	for _, n := range nodes {
		if n.kind != nodeMetadata || !strings.Contains(n.name, "process_group:init") {
			continue
		}
		// A list of Python's with one text, which is JSON: ['[{"pg_name": "0", "ranks": []}]'].
		_, text, found := strings.Cut(n.inputs, "[{")
		end := strings.LastIndex(text, "}]")
		if !found || end < 0 {
			in.note("process groups that cannot be read are left out", n, "")
			continue
		}
		var groups []struct {
			Name  string `json:"pg_name"`
			Ranks []int  `json:"ranks"` // none: all
			Size  int    `json:"group_size"`
		}
		if err := json.Unmarshal([]byte("[{"+text[:end]+"}]"), &groups); err != nil {
			return nil, fmt.Errorf("node %d (%s): groups: %w", n.id, n.name, err)
		}
		for _, g := range groups {
			if out == nil {
				out = map[string][]int{}
			}
			if len(g.Ranks) == 0 {
				g.Ranks = in.all()
				if g.Size > in.ranks {
					return nil, fmt.Errorf("node %d (%s): group %q has all %d ranks; %s.%d.et is missing, as a trace has one file per rank",
						n.id, n.name, g.Name, g.Size, in.Trace, in.ranks)
				}
			}
			out[g.Name] = g.Ranks
		}
	}
	return out, nil
}

// all returns the group of all ranks.
func (in rankReader) all() []int {
	group := make([]int, in.ranks)
	for i := range group {
		group[i] = i
	}
	return group
}

// group returns the ranks of a collective: those of its process group; all without a name. The name 0 is astra-sim's
// for all ranks, unless the trace has a group of this name.
func (in rankReader) group(n chakraNode) ([]int, error) {
	name := n.texts["pg_name"]
	group, ok := in.groups[name]
	if name == "" || !ok && name == "0" {
		return in.all(), nil
	}
	if !ok {
		return nil, fmt.Errorf("group %q is neither in the trace nor in the file of groups; write groups: FILE if it has another name than PREFIX.groups.json", name)
	}
	if last := slices.Max(append([]int{0}, group...)); last >= in.ranks {
		return nil, fmt.Errorf("group %q has rank %d; the trace has files of ranks 0 to %d", name, last, in.ranks-1)
	}
	if !slices.Contains(group, in.rank) {
		return nil, fmt.Errorf("group %q is of ranks %v, and the file is rank %d's: is it a copy of another's?", name, group, in.rank)
	}
	return group, nil
}
