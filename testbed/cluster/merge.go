package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/ethereal-fabric/ethereal/testbed/report"
)

// Line is one result as a file has it.
type Line struct {
	File    string
	Number  int // from 1
	Text    []byte
	Hash    string        `json:"run_sha256"`
	Version string        `json:"version"`
	End     report.End    `json:"end"`
	WallMS  float64       `json:"wall_ms"`
	RanOn   *report.Place `json:"ran_on"`
}

func (l *Line) place() string {
	if l.RanOn == nil {
		return "somewhere"
	}
	return l.RanOn.Host
}

// where says where a line is and who made it.
func (l *Line) where() string {
	return fmt.Sprintf("%s:%d (version %s, ran on %s)", l.File, l.Number, l.Version, l.place())
}

// Read returns what files of results have, by the hash of the run. Results of the same run stand in the order of the files;
// of one file the last counts, as `bench --again` has it. Runs that were interrupted, and a last line that was not written
// to its end, count as not there. So do damaged lines, which are returned: a disk or a killed writer may leave one in a
// folder that many tasks share.
func Read(files ...string) (out map[string][]*Line, damaged []error, err error) {
	out = map[string][]*Line{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, nil, err
		}
		number := 0
		last := map[string]*Line{}
		for line := range bytes.Lines(text[:bytes.LastIndexByte(text, '\n')+1]) {
			number++
			if line = bytes.TrimSpace(line); len(line) == 0 {
				continue
			}
			l := &Line{File: name, Number: number, Text: line}
			if err := json.Unmarshal(line, l); err != nil {
				damaged = append(damaged, fmt.Errorf("%s:%d: %w", name, number, err))
				continue
			}
			if l.Hash == "" {
				damaged = append(damaged, fmt.Errorf("%s:%d: the result has no run_sha256: nothing says which run it is of", name, number))
				continue
			}
			if l.End != report.Interrupted {
				last[l.Hash] = l
			}
		}
		for hash, l := range last {
			out[hash] = append(out[hash], l)
		}
	}
	return out, damaged, nil
}

// Varies are the keys of a result that may differ between two results of one run: how long it took and where, by which
// build and sweep. All others follow from the run.
func Varies() []string { return []string{"wall_ms", "ran_on", "version", "sweep", "variant"} }

// details are keys that `bench --full` keeps and other results have empty.
func details() []string { return []string{"links", "flip_records", "timeline"} }

// differences returns the keys in which two results of one run differ.
func differences(a, b *Line) ([]string, error) {
	var x, y map[string]any
	for _, in := range []struct {
		l    *Line
		into *map[string]any
	}{{a, &x}, {b, &y}} {
		if err := json.Unmarshal(in.l.Text, in.into); err != nil {
			return nil, fmt.Errorf("%s: %w", in.l.where(), err)
		}
	}
	empty := func(v any) bool { list, ok := v.([]any); return ok && len(list) == 0 }
	var out []string
	keys := map[string]bool{}
	for _, m := range []map[string]any{x, y} {
		for k := range m {
			keys[k] = true
		}
	}
	for k := range keys {
		switch {
		case slices.Contains(Varies(), k):
		case slices.Contains(details(), k) && (empty(x[k]) || empty(y[k])):
		case !reflect.DeepEqual(x[k], y[k]):
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out, nil
}

// Merged is what came of a merge.
type Merged struct {
	Lines      []*Line // one for each run
	Duplicates int     // that were dropped
}

// Merge takes one result of each run. The order is that of the hashes given; runs that are not among them come last,
// in order of their hashes. Two results of one run that differ are an error that says where each was made and by what.
func Merge(results map[string][]*Line, order []string) (*Merged, error) {
	m := &Merged{}
	place := map[string]int{}
	for i, h := range order {
		place[h] = i - len(order)
	}
	hashes := make([]string, 0, len(results))
	for h := range results {
		hashes = append(hashes, h)
	}
	slices.SortFunc(hashes, func(a, b string) int {
		if d := place[a] - place[b]; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	var wrong []string
	for _, h := range hashes {
		first := results[h][0]
		for _, other := range results[h][1:] {
			differ, err := differences(first, other)
			if err != nil {
				return nil, err
			}
			if len(differ) > 0 {
				wrong = append(wrong, fmt.Sprintf("run %.12s differs in %s: %s and %s", h, strings.Join(differ, ", "), first.where(), other.where()))
			}
			m.Duplicates++
		}
		m.Lines = append(m.Lines, first)
	}
	if len(wrong) > 0 {
		return nil, fmt.Errorf("results of the same run differ; remove those of the build or the node that is wrong:\n%s", strings.Join(wrong, "\n"))
	}
	return m, nil
}

// Encode returns the merged lines. When bare is set, they lack what varies between machines and builds, so that two merges of the
// same runs are equal to the byte.
func (m *Merged) Encode(bare bool) ([]byte, error) {
	var out bytes.Buffer
	for _, l := range m.Lines {
		text := l.Text
		if bare {
			var v map[string]json.RawMessage // keeps numbers as they are
			if err := json.Unmarshal(text, &v); err != nil {
				return nil, err
			}
			for _, k := range Varies()[:3] {
				delete(v, k)
			}
			var err error
			if text, err = json.Marshal(v); err != nil {
				return nil, err
			}
		}
		out.Write(text)
		out.WriteByte('\n')
	}
	return out.Bytes(), nil
}

// Write writes the merged lines into a file, at once.
func (m *Merged) Write(name string, bare bool) error {
	text, err := m.Encode(bare)
	if err != nil {
		return err
	}
	return write(name, text, 0o644)
}

// Lacks counts the jobs that have no result.
func (m *Merged) Lacks(jobs []Job) int {
	have := map[string]bool{}
	for _, l := range m.Lines {
		have[l.Hash] = true
	}
	n := 0
	for _, j := range jobs {
		if !have[j.Hash] {
			n++
		}
	}
	return n
}

// Hashes returns the hashes of the jobs' runs, in their order.
func Hashes(jobs []Job) []string {
	out := make([]string, len(jobs))
	for i, j := range jobs {
		out[i] = j.Hash
	}
	return out
}
