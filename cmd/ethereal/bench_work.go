package main

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/ethereal-fabric/ethereal/testbed/cluster"
	"github.com/ethereal-fabric/ethereal/testbed/scenario/sweep"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/virtual"
)

// benchWork is what one command of bench is to carry out.
type benchWork struct {
	flags benchFlags
	sweep *sweep.Sweep
	path  string
	out   string // file of results
	shard cluster.Shard
	all   []cluster.Job // of the whole sweep
	cases []sweep.Case  // of the shard; without a shard all
}

func planBench(path string, flags benchFlags) (*benchWork, error) {
	w := &benchWork{flags: flags, path: path, out: flags.out, shard: cluster.Shard{Of: 1}}
	var err error
	if w.sweep, err = sweep.Load(path); err != nil {
		return nil, err
	}
	if w.cases, err = chooseCases(w.sweep, flags); err != nil {
		return nil, err
	}
	switch {
	case flags.dir != "" && flags.out != "":
		return nil, errors.New("--dir and --out both say where results go; leave out one")
	case flags.merge != "" && flags.dir == "":
		return nil, errors.New("--merge merges what is in a folder; name it with --dir")
	}
	if flags.shard != "" {
		if w.shard, err = cluster.ParseShard(flags.shard); err != nil {
			return nil, fmt.Errorf("--shard: %w", err)
		}
	}
	if flags.dir != "" || flags.shard != "" {
		w.deal()
	}
	switch name := fileName(w.sweep.Name); {
	case flags.dir != "":
		w.out = filepath.Join(flags.dir, w.shard.File())
	case w.out == "" && flags.shard != "":
		w.out = name + "-" + w.shard.File()
	case w.out == "":
		w.out = name + ".jsonl"
	}
	return w, nil
}

// deal keeps the shard's cases, those that take longest first.
func (w *benchWork) deal() {
	w.all = jobsOf(w.cases)
	of := cluster.Deal(w.all, w.shard.Of)
	var mine []int
	for i := range w.cases {
		if of[i] == w.shard.Index {
			mine = append(mine, i)
		}
	}
	slices.SortStableFunc(mine, func(a, b int) int { return cmp.Compare(w.all[b].Seconds, w.all[a].Seconds) })
	cases := make([]sweep.Case, len(mine))
	for i, j := range mine {
		cases[i] = w.cases[j]
	}
	w.cases = cases
}

// jobsOf returns what cases cost.
func jobsOf(cases []sweep.Case) []cluster.Job {
	jobs := make([]cluster.Job, len(cases))
	for i, e := range virtual.Estimates(casesRuns(cases)) {
		jobs[i] = cluster.Job{Hash: cases[i].Hash, Name: caseText(cases[i]), Seconds: e.Seconds(), Bytes: e.Bytes}
	}
	return jobs
}

// kept returns what is there already: in the file of results, or in all files of the folder.
func (w *benchWork) kept() (kept, error) {
	k, err := readBench(w.out)
	if err != nil || w.flags.dir == "" {
		return k, err
	}
	files, err := cluster.Folder(w.flags.dir).Results()
	if err != nil {
		return k, err
	}
	lines, err := cluster.Read(files...)
	for hash, ls := range lines {
		k.versions[hash] = ls[len(ls)-1].Version
	}
	return k, err
}

// begin makes the folder, if there is to be one.
func (w *benchWork) begin() error {
	if w.flags.dir == "" {
		return nil
	}
	path, err := filepath.Abs(w.path)
	if err != nil {
		return err
	}
	f := cluster.Folder(w.flags.dir)
	tasks := w.shard.Of
	if was, err := f.Plan(); err == nil && w.flags.shard == "" {
		tasks = was.Tasks // a task without a shard does what the others left
	}
	return f.Begin(cluster.Plan{
		Sweep: path, Only: w.flags.only, Schemes: w.flags.schemes.String(), Seeds: w.flags.seeds, Tasks: tasks, Runs: cluster.RunsHash(w.all),
	})
}

// failed notes in the folder that a run failed.
func (w *benchWork) failed(c sweep.Case, version, text string) error {
	if w.flags.dir == "" {
		return nil
	}
	return cluster.Folder(w.flags.dir).Failed(w.shard, cluster.Failure{
		Hash: c.Hash, Run: caseText(c), Error: text, Version: version, RanOn: place(),
	})
}

// mergeComplete merges the folder when nothing is missing in it.
func (a *app) mergeComplete(w *benchWork) error {
	m, missing, err := mergeFolder(cluster.Folder(w.flags.dir), w.all)
	if err != nil {
		return err
	}
	if missing > 0 {
		fmt.Fprintf(a.stderr, "%d runs are missing in %s: the task that ends last merges\n", missing, w.flags.dir)
		return nil
	}
	if err := m.Write(w.flags.merge, false); err != nil {
		return fmt.Errorf("%w: --merge: %w", errRun, err)
	}
	fmt.Fprintf(a.stderr, "%s: %d results\n", w.flags.merge, len(m.Lines))
	return nil
}

// mergeFolder merges what a folder has of the jobs, and counts what it lacks.
func mergeFolder(f cluster.Folder, jobs []cluster.Job) (m *cluster.Merged, missing int, err error) {
	files, err := f.Results()
	if err != nil {
		return nil, 0, err
	}
	m, err = mergeFiles(files, jobs)
	if err != nil {
		return nil, 0, err
	}
	return m, m.Lacks(jobs), nil
}

func mergeFiles(files []string, jobs []cluster.Job) (*cluster.Merged, error) {
	results, err := cluster.Read(files...)
	if err != nil {
		return nil, err
	}
	m, err := cluster.Merge(results, cluster.Hashes(jobs))
	if err != nil {
		return nil, fmt.Errorf("%w: merge: %w", errRun, err)
	}
	return m, nil
}
