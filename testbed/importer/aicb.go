package importer

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// isAICB recognises the header of AICB's CSV files, below a line that says which ranks the rows are of.
func isAICB(data []byte) bool {
	for range 2 {
		line, rest, _ := bytes.Cut(data, []byte("\n"))
		if bytes.HasPrefix(line, []byte("comm_type,comm_group,")) {
			return true
		}
		data = rest
	}
	return false
}

// stageRows is the rows of a stage of the pipeline: its ranks carry out the same.
type stageRows struct {
	first, ranks int
	rows         []aicbRow
}

type aicbRow struct {
	line              int
	what, group, text string
	size              int64 // number of ranks of the group; 0: not given
	bytes             float64
	elapsed           float64
}

// readAICB reads a workload or log of AICB: one section per stage, whose ranks carry out its rows one after the other,
// as workload_applyer.py does. msg_size is the whole vector. Groups are Megatron's: tensor, then experts and data, then
// pipeline.
func readAICB(f *inputFile, o Options, into *Imported) error {
	sections, err := f.aicbSections(o)
	if err != nil {
		return err
	}
	for _, s := range sections {
		size := map[string]int{}
		for _, r := range s.rows {
			if r.size > 0 {
				size[r.group] = int(r.size)
			}
		}
		var steps []Step
		for _, r := range s.rows {
			if steps, err = f.aicbStep(steps, r, s, size, len(sections) == 1); err != nil {
				return err
			}
		}
		into.Ranks = max(into.Ranks, s.first+s.ranks)
		if len(steps) > 0 {
			into.Jobs = append(into.Jobs, Job{Ranks: fmt.Sprintf("%d..%d", s.first, s.first+s.ranks-1), Steps: steps})
		}
	}
	if !slices.ContainsFunc(into.Jobs, func(j Job) bool { return hasMessages(j.Steps) }) {
		return f.fail(0, "no collective of at least two ranks; name a workload with some")
	}
	return nil
}

// aicbSections reads the file. Columns are named, and an older file has no comm_group_size.
func (f *inputFile) aicbSections(o Options) ([]stageRows, error) {
	out := []stageRows{{ranks: o.Ranks}}
	var columns map[string]int
	line := 0
	for text := range strings.Lines(string(f.data)) {
		line++
		text = strings.TrimSpace(text)
		cells := strings.Split(text, ",")
		switch {
		case text == "":
		case strings.HasPrefix(text, "["):
			first, last, err := f.aicbRanks(line, text)
			if err != nil {
				return nil, err
			}
			if len(out[len(out)-1].rows) > 0 {
				out = append(out, stageRows{})
			}
			s := &out[len(out)-1]
			s.first, s.ranks = first, last-first+1
		case cells[0] == "comm_type":
			columns = map[string]int{}
			for i, c := range cells {
				columns[c] = i
			}
			for _, needed := range []string{"comm_group", "msg_size", "_elapsed_time"} {
				if _, ok := columns[needed]; !ok {
					return nil, f.fail(line, "column %s is missing; write a header as AICB does", needed)
				}
			}
		case columns == nil:
			return nil, f.fail(line, "a row without a header; write comm_type,comm_group,... above it")
		default:
			r, err := f.aicbRow(line, cells, columns)
			if err != nil {
				return nil, err
			}
			s := &out[len(out)-1]
			s.rows = append(s.rows, r)
		}
	}
	for _, s := range out {
		if s.ranks < 2 || s.first+s.ranks > collective.MaxRanks {
			return nil, f.fail(0, "%d ranks; write --world-size N if the file does not say [rank0 ~ rankN]", s.ranks)
		}
	}
	return out, nil
}

// aicbRanks reads "[rank0 ~ rank127]" or "[ pp_stage0: [rank0, rank1] ]".
func (f *inputFile) aicbRanks(line int, text string) (first, last int, err error) {
	var ranks []int
	for _, part := range strings.Split(text, "rank")[1:] {
		digits := part[:len(part)-len(strings.TrimLeft(part, "0123456789"))]
		n, err := f.number(line, "a rank", digits, 0, collective.MaxRanks-1)
		if err != nil {
			return 0, 0, err
		}
		ranks = append(ranks, int(n))
	}
	if len(ranks) == 0 || !slices.IsSorted(ranks) {
		return 0, 0, f.fail(line, "%q names no ranks in order; write for example [rank0 ~ rank7]", text)
	}
	return ranks[0], ranks[len(ranks)-1], nil
}

func (f *inputFile) aicbRow(line int, cells []string, columns map[string]int) (aicbRow, error) {
	cell := func(name string) string {
		i, ok := columns[name]
		if !ok || i >= len(cells) || cells[i] == "None" {
			return ""
		}
		return strings.TrimSpace(cells[i])
	}
	r := aicbRow{line: line, what: strings.TrimPrefix(cell("comm_type"), "CommType."), group: strings.TrimPrefix(cell("comm_group"), "CommGroup."), text: cell("msg_size")}
	var err error
	if text := cell("comm_group_size"); text != "" {
		if r.size, err = f.number(line, "comm_group_size", text, 1, collective.MaxRanks); err != nil {
			return r, err
		}
	}
	if text := cell("_elapsed_time"); text != "" && r.what == "computation" {
		if r.elapsed, err = f.decimal(line, "_elapsed_time", text, 1e15); err != nil {
			return r, err
		}
	}
	if r.what != "computation" && r.text != "" {
		r.bytes, err = f.decimal(line, "msg_size", r.text, 1<<50)
	}
	return r, err
}

// aicbStep adds a row.
func (f *inputFile) aicbStep(steps []Step, r aicbRow, s stageRows, size map[string]int, only bool) ([]Step, error) {
	where := r.what + " of " + r.group
	kinds := map[string]string{
		"all_reduce": collective.AllReduce, "all_gather": collective.AllGather, "all_gather_into_tensor": collective.AllGather,
		"reduce_scatter": collective.ReduceScatter, "reduce_scatter_tensor": collective.ReduceScatter,
		"all_to_all": collective.AllToAll, "broadcast": collective.AllGather, "reduce": collective.ReduceScatter, "barrier": collective.AllReduce,
	}
	st := Step{What: kinds[r.what], Bytes: fabric.Bytes(math.Round(r.bytes)), Stride: 1}
	tp := max(1, size["tp_group"])
	switch {
	case r.what == "epoch_end":
		return steps, nil
	case r.what == "computation" && r.elapsed > 0:
		return append(steps, Step{Compute: fabric.Time(math.Round(r.elapsed * float64(fabric.Nanosecond)))}), nil
	case r.what == "computation":
		f.countNotCarried(r.line, "computations without a time are left out", r.text)
		return steps, nil
	case st.What == "":
		f.countNotCarried(r.line, "messages between stages of the pipeline, and what else is no collective, are left out, as steps of jobs are collectives", where)
		return steps, nil
	}
	switch r.group {
	case "tp_group", "ep_tp_group":
	case "dp_group", "ep_group":
		st.Stride = tp
	case "ep_dp_group":
		st.Stride = tp * max(1, size["ep_group"])
	default:
		if r.group != "all" && r.group != "" || !only {
			f.countNotCarried(r.line, "collectives of ranks of several stages are left out", where)
			return steps, nil
		}
	}
	if st.Group = int(r.size); st.Group == 0 || r.group == "all" || r.group == "" {
		st.Group, st.Stride = s.ranks, 1
	}
	if s.ranks%(st.Group*st.Stride) != 0 {
		return nil, f.fail(r.line, "%s has %d ranks at a distance of %d, and there are %d; write --world-size N", where, st.Group, st.Stride, s.ranks)
	}
	switch r.what {
	case "broadcast", "reduce":
		f.countNotCarried(r.line, "broadcasts and reductions are sent as all-gathers and reduce-scatters of the same bytes", where)
	case "barrier":
		st.Bytes = fabric.Bytes(st.Group)
	default:
		if st.Bytes == 0 {
			f.countNotCarried(r.line, "collectives of 0 bytes are left out", where)
			return steps, nil
		}
	}
	return f.step(r.line, steps, st)
}
