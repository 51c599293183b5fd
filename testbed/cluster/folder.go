package cluster

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ethereal-fabric/ethereal/testbed/report"
)

// Plan is what all tasks of a sweep in one folder must agree on.
type Plan struct {
	Sweep   string `json:"sweep"` // the sweep's file, absolute
	Only    string `json:"only"`
	Schemes string `json:"schemes"`
	Seeds   string `json:"seeds"`
	Tasks   int    `json:"tasks"`
	// Runs is the hash of the hashes of all runs, in order: equal for tasks of the same sweep.
	Runs string `json:"runs_sha256"`
}

// RunsHash returns the hash of the jobs' hashes, in order.
func RunsHash(jobs []Job) string {
	h := sha256.New()
	for _, j := range jobs {
		fmt.Fprintln(h, j.Hash)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Folder is the path of a folder of results that all tasks of a sweep share.
type Folder string

// planFile has a name that is no results file's.
const planFile = "plan.json"

// Plan reads the folder's plan. The error is fs.ErrNotExist if it has none.
func (f Folder) Plan() (Plan, error) {
	var p Plan
	name := filepath.Join(string(f), planFile)
	text, err := os.ReadFile(name)
	if err != nil {
		return p, fmt.Errorf("--dir: %w", err)
	}
	if err := json.Unmarshal(text, &p); err != nil {
		return p, fmt.Errorf("%s: %w; name a folder that `ethereal bench --dir` made", name, err)
	}
	return p, nil
}

// Begin creates the folder and writes the plan. If the folder has a plan, it must be of the same runs; the number of
// tasks may differ.
func (f Folder) Begin(p Plan) error {
	if err := os.MkdirAll(string(f), 0o777); err != nil {
		return fmt.Errorf("--dir: %w", err)
	}
	was, err := f.Plan()
	switch {
	case err == nil && was.Runs != p.Runs:
		return fmt.Errorf("--dir: %s has results of other runs, those of %s (--only %q, --schemes %q, --seeds %q): the sweep, a scenario, the flags or "+
			"the program changed; name a new folder, or remove %s to go on with what is the same", f, was.Sweep, was.Only, was.Schemes, was.Seeds, planFile)
	case err == nil && was == p:
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(string(f), planFile), append(text, '\n'), 0o644)
}

// writeFile replaces a file at once, so that no task reads half of it.
func writeFile(name string, text []byte, mode fs.FileMode) error {
	file, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*")
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	err = errors.Join(err, file.Chmod(mode), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}

// Results returns the folder's files of results, sorted by name.
func (f Folder) Results() ([]string, error) {
	names, err := filepath.Glob(filepath.Join(string(f), "shard-*.jsonl"))
	slices.Sort(names)
	return names, err
}

// Failure is a run that failed, and so has no result.
type Failure struct {
	Hash    string          `json:"run_sha256"`
	Run     string          `json:"run"`
	Error   string          `json:"error"`
	Version string          `json:"version"`
	RanOn   *report.Machine `json:"ran_on"`
}

// failureFile is the name of the file of failures beside a file of results.
func failureFile(results string) string { return strings.TrimSuffix(results, ".jsonl") + ".failed" }

// Failed appends a failed run to a shard's file.
func (f Folder) Failed(s Shard, what Failure) error {
	line, err := json.Marshal(what)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(failureFile(filepath.Join(string(f), s.File())), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return err
	}
	_, err = file.Write(append(line, '\n'))
	return errors.Join(err, file.Close())
}

// Status is how many runs of a folder are done, missing or failed.
type Status struct {
	Runs    int       `json:"runs"`
	Done    int       `json:"done"`
	Missing []Missing `json:"missing"` // runs without result, in the order of the sweep
	Failed  []Failure `json:"failed"`  // the missing runs that failed
	Tasks   []Task    `json:"tasks"`
	Damaged []string  `json:"damaged"` // lines of results that cannot be read
	// Seconds is the CPU time of the missing runs, Longest that of the task with most, one run at a time. Both are
	// estimates, corrected by how wrong those of the finished runs were.
	Seconds float64 `json:"seconds_left"`
	Longest float64 `json:"seconds_left_longest_task"`
	// number of results by the machine that made them
	Places map[string]int `json:"ran_on"`
	Builds map[string]int `json:"versions"`
}

// Missing is a run of the sweep that has no result yet.
type Missing struct {
	Hash string `json:"run_sha256"`
	Run  string `json:"run"`
	Task int    `json:"task"`
}

// Task is the progress of one task.
type Task struct {
	Index   int       `json:"task"`
	Runs    int       `json:"runs"`
	Done    int       `json:"done"`
	Failed  int       `json:"failed"`
	Seconds float64   `json:"seconds_left"`
	Last    time.Time `json:"last_result"` // time of its last result; zero: none
}

// Status compares the folder's results with the jobs of a sweep divided into so many tasks.
func (f Folder) Status(jobs []Job, tasks int) (*Status, error) {
	s := &Status{Runs: len(jobs), Missing: []Missing{}, Failed: []Failure{}, Damaged: []string{}, Places: map[string]int{}, Builds: map[string]int{}}
	names, err := f.Results()
	if err != nil {
		return nil, err
	}
	results, damaged, err := Read(names...)
	if err != nil {
		return nil, err
	}
	failed, err := f.failed()
	if err != nil {
		return nil, err
	}
	for _, d := range damaged {
		s.Damaged = append(s.Damaged, d.Error())
	}
	for i := range tasks {
		t := Task{Index: i}
		if info, err := os.Stat(filepath.Join(string(f), Shard{i, tasks}.File())); err == nil {
			t.Last = info.ModTime().UTC()
		}
		s.Tasks = append(s.Tasks, t)
	}
	took, estimated := 0.0, 0.0
	of := AssignShards(jobs, tasks)
	for i, j := range jobs {
		t := &s.Tasks[of[i]]
		t.Runs++
		if rs := results[j.Hash]; len(rs) > 0 {
			t.Done++
			s.Done++
			s.Places[rs[0].machine()]++
			s.Builds[rs[0].Version]++
			took, estimated = took+rs[0].WallMS/1000, estimated+j.Seconds
			continue
		}
		t.Seconds += j.Seconds
		s.Missing = append(s.Missing, Missing{j.Hash, j.Name, of[i]})
		if e, ok := failed[j.Hash]; ok {
			t.Failed++
			s.Failed = append(s.Failed, e)
		}
	}
	scale := 1.0
	if took > 0 && estimated > 0 {
		scale = took / estimated
	}
	for i := range s.Tasks {
		s.Tasks[i].Seconds *= scale
		s.Seconds += s.Tasks[i].Seconds
		s.Longest = max(s.Longest, s.Tasks[i].Seconds)
	}
	return s, nil
}

// failed returns the last failure of each run.
func (f Folder) failed() (map[string]Failure, error) {
	names, err := filepath.Glob(filepath.Join(string(f), "shard-*.failed"))
	if err != nil {
		return nil, err
	}
	out := map[string]Failure{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		number := 0
		for line := range bytes.Lines(text[:bytes.LastIndexByte(text, '\n')+1]) {
			number++
			var e Failure
			if err := json.Unmarshal(line, &e); err != nil {
				return nil, fmt.Errorf("%s:%d: %w; remove the line", name, number, err)
			}
			out[e.Hash] = e
		}
	}
	return out, nil
}
