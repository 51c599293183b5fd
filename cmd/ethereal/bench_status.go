package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ethereal-fabric/ethereal/testbed/cluster"
	"github.com/ethereal-fabric/ethereal/testbed/runner/sweep"
)

// folderJobs returns the runs that the tasks of a folder have to execute.
func folderJobs(dir string) (cluster.Plan, []cluster.Job, error) {
	p, err := cluster.Folder(dir).Plan()
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil, fmt.Errorf("%s has no plan of a sweep; name a folder that `ethereal bench SWEEP --dir` or `ethereal bench submit` made", dir)
	}
	if err != nil {
		return p, nil, err
	}
	jobs, err := sweepJobs(p)
	if err == nil && cluster.RunsHash(jobs) != p.Runs {
		err = fmt.Errorf("%s is of other runs than %s has by now: the sweep, a scenario or the program changed; "+
			"use what the folder was made with, or a new folder", dir, p.Sweep)
	}
	return p, jobs, err
}

// sweepJobs returns the runs of a plan.
func sweepJobs(p cluster.Plan) ([]cluster.Job, error) {
	s, err := sweep.Load(p.Sweep)
	if err != nil {
		return nil, err
	}
	flags := benchFlags{only: p.Only, seeds: p.Seeds}
	if err := flags.schemes.Set(p.Schemes); err != nil {
		return nil, err
	}
	cases, err := chooseCases(s, flags)
	if err != nil {
		return nil, err
	}
	return cluster.JobsOf(cases), nil
}

func (a *app) benchStatusCommand() *cobra.Command {
	var out outputFormat
	c := &cobra.Command{
		Use:   "status DIR",
		Short: "Show which runs of a sweep are done, missing and failed",
		Long: `Reads the results that tasks of a sweep have written to a folder, and prints the numbers of finished, missing and failed
runs by task, and the time left. The time left is estimated, and corrected by the error of the estimates so far.`,
		Example: `  ethereal bench status shared/demo
  ethereal bench status shared/demo -o json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("bench status takes one folder, not %d; as in ethereal bench status shared/demo", len(args))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			p, jobs, err := folderJobs(args[0])
			if err != nil {
				return err
			}
			s, err := cluster.Folder(args[0]).Status(jobs, p.Tasks)
			if err != nil {
				return err
			}
			if out.forPeople() {
				return printStatus(a.stdout, s)
			}
			return out.write(a.stdout, s)
		},
	}
	out.register(c)
	return c
}

// maxNamedMissing is how many missing runs are named to people.
const maxNamedMissing = 20

func printStatus(w io.Writer, s *cluster.Status) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "%d runs: %d done, %d missing, %d of these failed\n", s.Runs, s.Done, len(s.Missing), len(s.Failed))
	if len(s.Missing) > 0 {
		fmt.Fprintf(t, "about %v left on one core, %v in the task with most\n", secondsOf(s.Seconds), secondsOf(s.Longest))
	}
	for _, counts := range []struct {
		word string
		of   map[string]int
	}{{"ran on", s.Places}, {"version", s.Builds}} {
		for _, k := range slices.Sorted(maps.Keys(counts.of)) {
			fmt.Fprintf(t, "%s %s: %d\n", counts.word, k, counts.of[k])
		}
	}
	fmt.Fprintf(t, "\ntask\truns\tdone\tfailed\tleft\tlast result\n")
	for _, k := range s.Tasks {
		last := "none"
		if k.Done > 0 && !k.Last.IsZero() {
			last = k.Last.Format(time.DateTime)
		}
		fmt.Fprintf(t, "%d\t%d\t%d\t%d\t%v\t%s\n", k.Index, k.Runs, k.Done, k.Failed, secondsOf(k.Seconds), last)
	}
	for _, d := range s.Damaged {
		fmt.Fprintf(t, "%s; the line is skipped, and its run counts as missing\n", d)
	}
	for _, f := range s.Failed {
		fmt.Fprintf(t, "failed: %s: %s\n", f.Run, f.Error)
	}
	for i, m := range s.Missing {
		if i == maxNamedMissing {
			fmt.Fprintf(t, "and %d more; -o json has all\n", len(s.Missing)-i)
			break
		}
		fmt.Fprintf(t, "missing: task %d: %s\n", m.Task, m.Run)
	}
	return t.Flush()
}

// mergeFlags are the flags of `ethereal bench merge`.
type mergeFlags struct {
	out, sweep          string
	comparable, partial bool
}

func (a *app) benchMergeCommand() *cobra.Command {
	var flags mergeFlags
	c := &cobra.Command{
		Use:   "merge DIR|FILE...",
		Short: "Merge several files of results into one",
		Long: `Writes one result for each run. A folder that tasks share must have all runs of its sweep, which are written in the
sweep's order. Results of one run may differ only in duration, machine and build. If they differ in anything else,
nothing is written, and both builds and machines are named.`,
		Example: `  ethereal bench merge shared/demo --out demo.jsonl
  ethereal bench merge one.jsonl other.jsonl --out both.jsonl`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("bench merge: name a folder or files, as in ethereal bench merge shared/demo --out demo.jsonl")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return a.benchMerge(args, flags) },
	}
	f := c.Flags()
	f.StringVar(&flags.out, "out", "", "write results to `FILE`; by default to standard output")
	f.StringVar(&flags.sweep, "sweep", "", "require all runs of the sweep in `FILE`, and write them in its order")
	f.BoolVar(&flags.comparable, "comparable", false, "leave out "+strings.Join(cluster.VaryingKeys()[:3], ", ")+": files of the same runs are then equal to the byte")
	f.BoolVar(&flags.partial, "partial", false, "write the results that exist although runs are missing")
	return c
}

func (a *app) benchMerge(args []string, flags mergeFlags) error {
	var jobs []cluster.Job
	var files []string
	if flags.sweep != "" {
		var err error
		if jobs, err = sweepJobs(cluster.Plan{Sweep: flags.sweep}); err != nil {
			return err
		}
	}
	for _, arg := range args {
		info, err := os.Stat(arg)
		if err != nil {
			return fmt.Errorf("merge: %w", err)
		}
		if !info.IsDir() {
			files = append(files, arg)
			continue
		}
		_, of, err := folderJobs(arg)
		if err != nil {
			return err
		}
		if jobs == nil {
			jobs = of
		}
		found, err := cluster.Folder(arg).Results()
		if err != nil {
			return err
		}
		files = append(files, found...)
	}
	m, err := a.mergeMember().MergeFiles(files, jobs)
	if errors.Is(err, cluster.ErrMerge) {
		return failedf("%w", err)
	}
	if err != nil {
		return err
	}
	if n := m.Lacks(jobs); n > 0 && !flags.partial {
		return failedf("merge: %d of %d runs are missing; `ethereal bench status` names them, --partial merges the others", n, len(jobs))
	}
	if flags.out == "" {
		text, err := m.Encode(flags.comparable)
		if err == nil {
			_, err = a.stdout.Write(text)
		}
		if err != nil {
			return failedf("%w", err)
		}
	} else if err := m.Write(flags.out, flags.comparable); err != nil {
		return failedf("--out: %w", err)
	}
	fmt.Fprintf(a.stderr, "%d results, %d duplicates dropped\n", len(m.Lines), m.Duplicates)
	return nil
}
