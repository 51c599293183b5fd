package workload

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// WriteChakra writes a program as a trace: one file per rank and, if it has groups that are not all ranks, the
// groups' file. Durations are rounded up to microseconds. Algorithms are left out, since a trace has no field for
// them.
func WriteChakra(prefix string, p *Program) error {
	groups := map[string][]int{}
	for r, ops := range p.Ranks {
		out := protowire.AppendTag(nil, 1, protowire.BytesType)
		out = framed(nil, protowire.AppendString(out, "0.0.4"))
		for o, op := range ops {
			n, err := op.chakra(o, r, len(p.Ranks), groups)
			if err != nil {
				return fmt.Errorf("%w: %s: rank %d, operation %d: %w", ErrProgram, p.Name, r, o, err)
			}
			out = framed(out, n)
		}
		if err := os.WriteFile(fmt.Sprintf("%s.%d.et", prefix, r), out, 0o666); err != nil {
			return fmt.Errorf("workload: %w", err)
		}
	}
	if len(groups) == 0 {
		return nil
	}
	text, err := json.MarshalIndent(groups, "", " ")
	if err != nil {
		return fmt.Errorf("workload: %w", err)
	}
	if err := os.WriteFile(prefix+".groups.json", append(text, '\n'), 0o666); err != nil {
		return fmt.Errorf("workload: %w", err)
	}
	return nil
}

func framed(b, message []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(message))), message...)
}

// chakra converts an operation to a node.
func (op Op) chakra(id, rank, ranks int, groups map[string][]int) ([]byte, error) {
	var b []byte
	varint := func(field protowire.Number, v uint64) {
		b = protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
	}
	attribute := func(name string, field protowire.Number, number int64, text string) {
		a := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), name)
		if field == 29 {
			a = protowire.AppendString(protowire.AppendTag(a, field, protowire.BytesType), text)
		} else {
			a = protowire.AppendVarint(protowire.AppendTag(a, field, protowire.VarintType), uint64(number))
		}
		b = protowire.AppendBytes(protowire.AppendTag(b, fieldAttr, protowire.BytesType), a)
	}
	if op.Awaits != "" {
		return nil, fmt.Errorf("a trace has no waits for events of other ranks, as that for %q", op.Awaits)
	}
	name := [...]string{"compute", op.What, "send", "recv"}[op.Kind]
	varint(fieldID, uint64(id))
	b = protowire.AppendString(protowire.AppendTag(b, fieldName, protowire.BytesType), name)
	varint(fieldType, [...]uint64{nodeCompute, nodeCollective, nodeSend, nodeRecv}[op.Kind])
	var deps []byte
	for _, a := range op.After {
		deps = protowire.AppendVarint(deps, uint64(a))
	}
	if len(deps) > 0 {
		b = protowire.AppendBytes(protowire.AppendTag(b, fieldData, protowire.BytesType), deps)
	}
	switch op.Kind {
	case Compute:
		varint(fieldDuration, uint64((op.Duration+fabric.Microsecond-1)/fabric.Microsecond))
	case Send, Recv:
		src, dst := rank, op.Peer
		if op.Kind == Recv {
			src, dst = dst, src
		}
		attribute("comm_src", 9, int64(src), "")
		attribute("comm_dst", 9, int64(dst), "")
		attribute("comm_tag", 9, int64(op.Tag), "")
		attribute("comm_size", 9, op.Bytes, "")
	case Collective:
		kind := int64(-1)
		for k, what := range chakraKinds() {
			if what == op.What && k != 8 {
				kind = k
			}
		}
		if kind < 0 {
			return nil, fmt.Errorf("a trace has no %s", op.What)
		}
		attribute("comm_type", 9, kind, "")
		attribute("comm_size", 9, contributedBytes(op.What, op.Bytes, len(op.Group)), "")
		if len(op.Group) < ranks {
			pg := groupName(groups, op.Group)
			attribute("pg_name", 29, 0, pg)
		}
	}
	return b, nil
}

// groupName returns the name of a group, and makes one if it has none. Others take group 0 for all ranks.
func groupName(groups map[string][]int, group []int) string {
	for name, g := range groups {
		if slices.Equal(g, group) {
			return name
		}
	}
	name := strconv.Itoa(len(groups) + 1)
	groups[name] = group
	return name
}
