package main

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ethereal-fabric/ethereal/testbed/cluster"
	"github.com/ethereal-fabric/ethereal/testbed/scenario/sweep"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/virtual"
)

// taskFlags say which task of a sweep a command is.
type taskFlags struct{ dir, shard, merge string }

// addTasks gives bench the flags and the commands of sweeps that several tasks carry out.
func (a *app) addTasks(c *cobra.Command, flags *benchFlags) {
	var t taskFlags
	f := c.Flags()
	f.StringVar(&t.dir, "dir", "", "use the folder `DIR`; shared with other tasks of the sweep, each with a file of "+
		"results there. What any file has is not run again")
	f.StringVar(&t.shard, "shard", "", "carry out task `I/N` of the sweep's N tasks; the first is 0/N")
	f.StringVar(&t.merge, "merge", "", "with --dir: merge the results into `FILE` once none is missing")
	flags.divide = func(w *benchWork) error { _, err := t.divide(a, w); return err }
	c.AddCommand(a.benchStatusCommand(), a.benchMergeCommand(), a.benchSubmitCommand())
}

// tasks is a sweep that several tasks carry out, seen by one of them. It implements benchTasks.
type tasks struct {
	taskFlags
	a      *app
	w      *benchWork
	folder cluster.Folder
	shard  cluster.Shard
	all    []cluster.Job // of the whole sweep
}

// divide keeps the task's cases, those that take longest first.
func (t taskFlags) divide(a *app, w *benchWork) (*tasks, error) {
	switch {
	case t.dir != "" && w.flags.out != "":
		return nil, errors.New("--dir and --out both say where results go; leave out one")
	case t.merge != "" && t.dir == "":
		return nil, errors.New("--merge merges what is in a folder; name it with --dir")
	case t.dir == "" && t.shard == "":
		return nil, nil
	}
	x := &tasks{taskFlags: t, a: a, w: w, folder: cluster.Folder(t.dir), shard: cluster.Shard{Of: 1}, all: jobsOf(w.cases)}
	if t.shard != "" {
		var err error
		if x.shard, err = cluster.ParseShard(t.shard); err != nil {
			return nil, fmt.Errorf("--shard: %w", err)
		}
	}
	of := cluster.Deal(x.all, x.shard.Of)
	var mine []int
	for i := range w.cases {
		if of[i] == x.shard.Index {
			mine = append(mine, i)
		}
	}
	slices.SortStableFunc(mine, func(a, b int) int { return cmp.Compare(x.all[b].Seconds, x.all[a].Seconds) })
	cases := make([]sweep.Case, len(mine))
	for i, j := range mine {
		cases[i] = w.cases[j]
	}
	w.cases = cases
	switch {
	case t.dir != "":
		w.out, w.tasks = filepath.Join(t.dir, x.shard.File()), x
	case w.out == "":
		w.out = fileName(w.sweep.Name) + "-" + x.shard.File()
	}
	return x, nil
}

// jobsOf returns what cases cost.
func jobsOf(cases []sweep.Case) []cluster.Job {
	jobs := make([]cluster.Job, len(cases))
	for i, e := range virtual.Estimates(casesRuns(cases)) {
		jobs[i] = cluster.Job{Hash: cases[i].Hash, Name: caseText(cases[i]), Seconds: e.Seconds(), Bytes: e.Bytes}
	}
	return jobs
}

func (t *tasks) add(k kept) (kept, error) {
	files, err := t.folder.Results()
	if err != nil {
		return k, err
	}
	lines, damaged, err := cluster.Read(files...)
	t.a.warnDamaged(damaged)
	for hash, ls := range lines {
		k.versions[hash] = ls[len(ls)-1].Version
	}
	return k, err
}

func (t *tasks) begin() error {
	path, err := filepath.Abs(t.w.path)
	if err != nil {
		return err
	}
	n := t.shard.Of
	if was, err := t.folder.Plan(); err == nil && t.taskFlags.shard == "" {
		n = was.Tasks // a task without a shard does what the others left
	}
	flags := t.w.flags
	return t.folder.Begin(cluster.Plan{
		Sweep: path, Only: flags.only, Schemes: flags.schemes.String(), Seeds: flags.seeds, Tasks: n, Runs: cluster.RunsHash(t.all),
	})
}

func (t *tasks) failed(c sweep.Case, version, text string) error {
	return t.folder.Failed(t.shard, cluster.Failure{
		Hash: c.Hash, Run: caseText(c), Error: text, Version: version, RanOn: place(),
	})
}

// end merges the folder when nothing is missing in it.
func (t *tasks) end() error {
	if t.merge == "" {
		return nil
	}
	files, err := t.folder.Results()
	if err != nil {
		return err
	}
	m, err := t.a.mergeFiles(files, t.all)
	if err != nil {
		return err
	}
	if missing := m.Lacks(t.all); missing > 0 {
		fmt.Fprintf(t.a.stderr, "%d runs are missing in %s: the task that ends last merges\n", missing, t.dir)
		return nil
	}
	if err := m.Write(t.merge, false); err != nil {
		return failure("--merge: %w", err)
	}
	fmt.Fprintf(t.a.stderr, "%s: %d results\n", t.merge, len(m.Lines))
	return nil
}

// warnDamaged names lines of results that cannot be read.
func (a *app) warnDamaged(lines []error) {
	for _, line := range lines {
		fmt.Fprintf(a.stderr, "%v; the line is skipped, and its run counts as missing\n", line)
	}
}

func (a *app) mergeFiles(files []string, jobs []cluster.Job) (*cluster.Merged, error) {
	results, damaged, err := cluster.Read(files...)
	if err == nil && len(results) == 0 && len(damaged) > 0 {
		err = fmt.Errorf("%w; name files of results", damaged[0])
	}
	if err != nil {
		return nil, err
	}
	a.warnDamaged(damaged)
	m, err := cluster.Merge(results, cluster.Hashes(jobs))
	if err != nil {
		return nil, failure("merge: %w", err)
	}
	return m, nil
}
