package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/ethereal-fabric/ethereal/testbed/cluster"
)

// taskFlags are the flags that name which of several tasks of a sweep this command is.
type taskFlags struct{ dir, shard, merge string }

// addTasks adds to bench the flags and subcommands of sweeps that are split over several tasks.
func (a *app) addTasks(c *cobra.Command, flags *benchFlags) {
	var t taskFlags
	f := c.Flags()
	f.StringVar(&t.dir, "dir", "", "use the folder `DIR`; the tasks of a sweep share it. Each task writes one file of "+
		"results there, and skips runs that are in any of the files")
	f.StringVar(&t.shard, "shard", "", "carry out task `I/N` of the sweep's N tasks; the first task is 0/N")
	f.StringVar(&t.merge, "merge", "", "with --dir: merge the results into `FILE` once none is missing")
	flags.divide = func(w *benchWork) error { _, err := t.keepShare(a, w); return err }
	c.AddCommand(a.benchStatusCommand(), a.benchMergeCommand(), a.benchSubmitCommand())
}

// keepShare keeps the task's cases.
func (t taskFlags) keepShare(a *app, w *benchWork) (*cluster.Member, error) {
	switch {
	case t.dir != "" && w.flags.out != "":
		return nil, errors.New("--dir and --out both say where results go; leave out one")
	case t.merge != "" && t.dir == "":
		return nil, errors.New("--merge merges what is in a folder; name it with --dir")
	case t.dir == "" && t.shard == "":
		return nil, nil
	}
	m := a.mergeMember()
	m.Folder, m.Shard, m.Alone, m.Merge, m.Work = cluster.Folder(t.dir), cluster.Shard{Of: 1}, t.shard == "", t.merge, &w.Work
	m.Jobs = cluster.JobsOf(w.Cases)
	m.Plan = cluster.Plan{Sweep: w.path, Only: w.flags.only, Schemes: w.flags.schemes.String(), Seeds: w.flags.seeds}
	if t.shard != "" {
		var err error
		if m.Shard, err = cluster.ParseShard(t.shard); err != nil {
			return nil, fmt.Errorf("--shard: %w", err)
		}
	}
	m.Divide()
	switch {
	case t.dir != "":
		w.Out, w.Tasks = filepath.Join(t.dir, m.Shard.File()), m
	case w.Out == "":
		w.Out = fileName(w.Sweep.Name) + "-" + m.Shard.File()
	}
	return m, nil
}

// mergeMember is one without a folder, to merge files.
func (a *app) mergeMember() *cluster.Member {
	return &cluster.Member{Say: func(format string, args ...any) { fmt.Fprintf(a.stderr, format+"\n", args...) }}
}
