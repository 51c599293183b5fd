package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/ethereal-fabric/ethereal/testbed/runner/sweep"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/virtual"
)

// Member is one of the tasks that carry out a sweep together, through a shared folder. It implements [sweep.Tasks].
type Member struct {
	Folder Folder
	Shard  Shard
	Jobs   []Job  // all runs of the sweep
	Plan   Plan   // what all tasks agree on; Begin completes it
	Merge  string // file for all results, written by the task that ends last; "": none
	Work   *sweep.Work
	Alone  bool                             // no shard was requested: it carries out all missing runs
	Say    func(format string, args ...any) // prints a line
}

// JobsOf returns the expected costs of the cases of a sweep.
func JobsOf(cases []sweep.Case) []Job {
	jobs := make([]Job, len(cases))
	for i, e := range virtual.Estimates(sweep.Runs(cases)) {
		jobs[i] = Job{Hash: cases[i].Hash, Name: cases[i].String(), Seconds: e.Seconds(), Bytes: e.Bytes}
	}
	return jobs
}

// Divide selects the cases of the member's shard, the longest first.
func (m *Member) Divide() {
	of := AssignShards(m.Jobs, m.Shard.Of)
	var mine []int
	for i := range m.Work.Cases {
		if of[i] == m.Shard.Index {
			mine = append(mine, i)
		}
	}
	slices.SortStableFunc(mine, func(a, b int) int { return cmp.Compare(m.Jobs[b].Seconds, m.Jobs[a].Seconds) })
	cases := make([]sweep.Case, len(mine))
	for i, j := range mine {
		cases[i] = m.Work.Cases[j]
	}
	m.Work.Cases = cases
}

// Begin creates the folder of results and writes the plan: the sweep, its runs and the number of tasks. If the folder
// has a plan of other runs, it is an error.
func (m *Member) Begin() error {
	p := m.Plan
	var err error
	if p.Sweep, err = filepath.Abs(p.Sweep); err != nil {
		return err
	}
	p.Tasks, p.Runs = m.Shard.Of, RunsHash(m.Jobs)
	if was, err := m.Folder.Plan(); err == nil && m.Alone {
		p.Tasks = was.Tasks
	}
	return m.Folder.Begin(p)
}

// Add adds the results in the folder to those that the task already has.
func (m *Member) Add(have sweep.Results) error {
	files, err := m.Folder.Results()
	if err != nil {
		return err
	}
	lines, damaged, err := Read(files...)
	m.warn(damaged)
	for hash, ls := range lines {
		have.Versions[hash] = ls[len(ls)-1].Version
	}
	return err
}

// Failed records that a run failed.
func (m *Member) Failed(c sweep.Case, why string) error {
	return m.Folder.Failed(m.Shard, Failure{
		Hash: c.Hash, Run: c.String(), Error: why, Version: m.Work.Version, RanOn: m.Work.Place,
	})
}

// End merges the folder's results if none is missing.
func (m *Member) End() error {
	if m.Merge == "" {
		return nil
	}
	files, err := m.Folder.Results()
	if err != nil {
		return err
	}
	merged, err := m.MergeFiles(files, m.Jobs)
	if err != nil {
		return err
	}
	if missing := merged.Lacks(m.Jobs); missing > 0 {
		m.Say("%d runs are missing in %s: the task that ends last merges", missing, m.Folder)
		return nil
	}
	if err := merged.Write(m.Merge, false); err != nil {
		return fmt.Errorf("--merge: %w", err)
	}
	m.Say("%s: %d results", m.Merge, len(merged.Lines))
	return nil
}

// warn names lines of results that cannot be read.
func (m *Member) warn(lines []error) {
	for _, line := range lines {
		m.Say("%v; the line is skipped, and its run counts as missing", line)
	}
}

// ErrMerge is wrapped by errors about results that cannot be merged.
var ErrMerge = errors.New("merge")

// MergeFiles merges the results in files, in the order of the jobs.
func (m *Member) MergeFiles(files []string, jobs []Job) (*Merged, error) {
	results, damaged, err := Read(files...)
	if err == nil && len(results) == 0 && len(damaged) > 0 {
		err = fmt.Errorf("%w; name files of results", damaged[0])
	}
	if err != nil {
		return nil, err
	}
	m.warn(damaged)
	merged, err := Merge(results, Hashes(jobs))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMerge, err)
	}
	return merged, nil
}
