package workload

import (
	"fmt"
	"math"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
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

// reading is what the nodes of a rank become operations with.
type reading struct {
	Chakra
	rank, ranks int
	groups      map[string][]int
}

// operations converts the nodes of a rank to operations. Nodes need not be in the order of their dependencies;
// memory, storage and the like take their duration.
func (in reading) operations(nodes []node) ([]Op, error) {
	order, err := sorted(nodes)
	if err != nil {
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

func (in reading) operation(n node) (Op, error) {
	switch n.kind {
	case nodeSend, nodeRecv:
		return in.message(n)
	case nodeCollective:
		return in.collective(n)
	case nodeCompute:
		if n.duration == 0 && n.ints["num_ops"] > 0 {
			return in.roofline(n)
		}
	}
	if n.duration > maxDuration {
		return Op{}, fmt.Errorf("a duration of %d us", n.duration)
	}
	return Op{Kind: Compute, Duration: fabric.Time(n.duration) * fabric.Microsecond}, nil
}

// roofline returns a computation that has no duration: it lasts as long as its operations take, or as the bytes of its
// tensors take to and from memory, whichever is longer.
func (in reading) roofline(n node) (Op, error) {
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
func (in reading) message(n node) (Op, error) {
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

func (in reading) collective(n node) (Op, error) {
	group, err := in.group(n)
	if err != nil {
		return Op{}, err
	}
	if len(group) == 1 {
		return Op{Kind: Compute}, nil // nothing to exchange
	}
	what, ok := chakraKinds()[n.ints["comm_type"]]
	if !ok {
		return Op{}, fmt.Errorf("comm_type %d is not carried out; all-reduce, all-gather, all-to-all and reduce-scatter are", n.ints["comm_type"])
	}
	bytes, err := vectorBytes(what, n.ints["comm_size"], len(group))
	if err != nil {
		return Op{}, err
	}
	op := Op{Kind: Collective, What: what, Bytes: bytes, Group: group}
	if slices.Contains(collective.Algorithms(what), in.Algorithm) {
		op.Algorithm = in.Algorithm
	}
	return op, nil
}

// group returns the ranks of a collective: those of its process group; all without a name. The name 0 is astra-sim's
// for all ranks, unless the trace has a group of this name.
func (in reading) group(n node) ([]int, error) {
	name := n.texts["pg_name"]
	group, ok := in.groups[name]
	if name == "" || !ok && name == "0" {
		group = make([]int, in.ranks)
		for i := range group {
			group[i] = i
		}
		return group, nil
	}
	if !ok {
		return nil, fmt.Errorf("group %q is not in the file of groups; write groups: FILE if it has another name than PREFIX.groups.json", name)
	}
	if last := slices.Max(append([]int{0}, group...)); last >= in.ranks {
		return nil, fmt.Errorf("group %q has rank %d; the trace has files of ranks 0 to %d", name, last, in.ranks-1)
	}
	if !slices.Contains(group, in.rank) {
		return nil, fmt.Errorf("group %q is of ranks %v, and the file is rank %d's: is it a copy of another's?", name, group, in.rank)
	}
	return group, nil
}
