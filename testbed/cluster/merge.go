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

// Line is one result, as a line of a file.
type Line struct {
	File    string
	Number  int // line number, from 1
	Text    []byte
	Hash    string          `json:"run_sha256"`
	Version string          `json:"version"`
	End     report.End      `json:"end"`
	WallMS  float64         `json:"wall_ms"`
	RanOn   *report.Machine `json:"ran_on"`
}

func (l *Line) machine() string {
	if l.RanOn == nil {
		return "somewhere"
	}
	return l.RanOn.Host
}

// origin returns the file, line and machine of a result, as text.
func (l *Line) origin() string {
	return fmt.Sprintf("%s:%d (version %s, ran on %s)", l.File, l.Number, l.Version, l.machine())
}

// Read returns the results in files, by the hash of the run. Results of the same run are in the order of the files;
// within a file only the last counts. Results of interrupted runs, and an incomplete last line, are ignored. So are
// damaged lines, which are returned: a disk or a killed writer can leave one in a folder that many tasks share.
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

// VaryingKeys returns the keys of a result that may differ between two results of one run: duration, machine, program
// version, sweep. All others are determined by the run.
func VaryingKeys() []string { return []string{"wall_ms", "ran_on", "version", "sweep", "variant"} }

// detailKeys are keys that `bench --full` keeps and other results have empty.
func detailKeys() []string { return []string{"links", "flip_records", "timeline"} }

// differences returns the keys in which two results of one run differ.
func differences(a, b *Line) ([]string, error) {
	var x, y map[string]any
	for _, in := range []struct {
		l    *Line
		into *map[string]any
	}{{a, &x}, {b, &y}} {
		if err := json.Unmarshal(in.l.Text, in.into); err != nil {
			return nil, fmt.Errorf("%s: %w", in.l.origin(), err)
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
		case slices.Contains(VaryingKeys(), k):
		case slices.Contains(detailKeys(), k) && (empty(x[k]) || empty(y[k])):
		case !reflect.DeepEqual(x[k], y[k]):
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out, nil
}

// Merged is the output of [Merge].
type Merged struct {
	Lines      []*Line // one result line for each run
	Duplicates int     // number of further results of the same runs
}

// Merge takes one result of each run. They are in the order of the given hashes, and then other runs by their hashes.
// Two different results of one run are an error, which says where each was made.
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
				wrong = append(wrong, fmt.Sprintf("run %.12s differs in %s: %s and %s", h, strings.Join(differ, ", "), first.origin(), other.origin()))
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

// Encode returns the merged results as lines of JSON. If bare is set, what varies between machines and program versions
// is left out, so that merges of the same runs are equal to the byte.
func (m *Merged) Encode(bare bool) ([]byte, error) {
	var out bytes.Buffer
	for _, l := range m.Lines {
		text := l.Text
		if bare {
			var v map[string]json.RawMessage // keeps numbers as they are
			if err := json.Unmarshal(text, &v); err != nil {
				return nil, err
			}
			for _, k := range VaryingKeys()[:3] {
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

// Write replaces a file by the merged results.
func (m *Merged) Write(name string, bare bool) error {
	text, err := m.Encode(bare)
	if err != nil {
		return err
	}
	return writeFile(name, text, 0o644)
}

// Lacks returns the number of jobs without a result.
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

// Hashes returns the hashes that identify the jobs' runs, in order.
func Hashes(jobs []Job) []string {
	out := make([]string, len(jobs))
	for i, j := range jobs {
		out[i] = j.Hash
	}
	return out
}
