package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/runner"
	"github.com/ethereal-fabric/ethereal/testbed/runner/sweep"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// benchFlags are the flags of `ethereal bench`.
type benchFlags struct {
	out      string
	only     string
	schemes  schemeList
	seeds    string
	parallel int
	cores    int
	full     bool
	again    bool
	dryRun   bool
	quiet    bool
	force    bool
	divide   func(*benchWork) error // among tasks; nil: into none
}

func (a *app) benchCommand() *cobra.Command {
	var flags benchFlags
	c := &cobra.Command{
		Use:   "bench SWEEP",
		Short: "Run a sweep of scenarios on all cores; the same command continues it",
		Long: `Runs a sweep file: scenarios with all combinations of the values of the keys that vary. Each run's result is one line
of JSON, written when the run ends, with the program's version and the hash of the run's inputs. Runs whose results the
file already has are skipped, so after an interrupt the same command executes the missing runs only.

Several tasks, on one machine or many, can share a sweep: each has a --shard, and all share a folder, --dir. The commands
below show the tasks' progress, merge their results, and start them by Slurm or Kubernetes.`,
		Example: `  ethereal bench testbed/sweeps/demo.yaml --out sweep.jsonl
  ethereal bench testbed/sweeps/demo.yaml --out sweep.jsonl --only 'ecmp.*gnmi' --seeds 1
  ethereal bench testbed/sweeps/demo.yaml --dry-run
  ethereal bench testbed/sweeps/demo.yaml --dir shared/demo --shard 0/8`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("bench takes one sweep file, not %d; as in ethereal bench testbed/sweeps/demo.yaml", len(args))
			}
			return nil
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(c *cobra.Command, args []string) error { return a.runBench(c.Context(), args[0], flags) },
	}
	f := c.Flags()
	f.StringVar(&flags.out, "out", "", "write results to `FILE`; runs whose results it already has are skipped (default: the sweep's "+
		"name with .jsonl)")
	f.StringVar(&flags.only, "only", "", "select runs that match `REGEXP`; it is compared with failure, collective, "+
		"notifier, scheme and seed as progress prints them")
	f.Var(&flags.schemes, "schemes", "use these schemes, `A,B`; with parameters as in 'jsq,spray(mode=random)'")
	f.StringVar(&flags.seeds, "seeds", "", "use these `SEEDS`; written as 7, as 1,2,5 or as 1..10")
	f.IntVar(&flags.parallel, "parallel", runtime.GOMAXPROCS(0), "run `N` at a time")
	f.IntVar(&flags.cores, "cores", 0, "simulate each run on `N` cores, with the same result (default: the cores that --parallel "+
		"leaves; 1 below 64 hosts)")
	f.BoolVar(&flags.full, "full", false, "keep links, flips and timelines in the results; pictures of single "+
		"runs need them, but files become many times larger")
	f.BoolVar(&flags.again, "again", false, "repeat runs whose results come from another version of the program")
	f.BoolVar(&flags.force, "force", false, "override a refusal; here: of runs that need more memory than there is, by the estimate")
	f.BoolVar(&flags.dryRun, "dry-run", false, "only print what would be done; here: which runs are missing")
	f.BoolVarP(&flags.quiet, "quiet", "q", false, "print less; no progress")
	a.addTasks(c, &flags)
	_ = c.RegisterFlagCompletionFunc("schemes", cobra.FixedCompletions(scenario.SchemeNames(),
		cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (a *app) runBench(ctx context.Context, path string, flags benchFlags) (err error) {
	if err := checkCores(flags.parallel, flags.cores); err != nil {
		return err
	}
	w, err := a.planBench(path, flags)
	if err != nil {
		return err
	}
	var file *os.File
	if !flags.dryRun && w.Tasks == nil { // before the results are read: no other process adds to them from then on
		if file, err = openResults(w); err != nil {
			return err
		}
		defer closeFile(file, &err)
	}
	todo, have, old, err := w.Missing(flags.again)
	if err != nil {
		return err
	}
	if flags.dryRun {
		for _, c := range todo {
			fmt.Fprintln(a.stdout, c)
		}
		fmt.Fprintf(a.stderr, "%d of %d runs are missing in %s\n", len(todo), len(w.Cases), w.Out)
		return nil
	}
	if !flags.quiet {
		there := len(w.Cases) - len(todo)
		fmt.Fprintf(a.stderr, "%s: %s, %d of them in %s already\n", w.Sweep.Name, fabric.Count(len(w.Cases), "run"), there,
			w.Out)
		if old > 0 {
			fmt.Fprintf(a.stderr, "%d of these are of another version of the program; --again runs them again\n", old)
		}
	}
	if w.Tasks != nil {
		if err := w.Tasks.Begin(); err != nil {
			return err
		}
		if file, err = openResults(w); err != nil {
			return err
		}
		defer closeFile(file, &err)
	}
	if err := have.Continue(file); err != nil {
		return openError("--out", err)
	}
	if len(todo) > 0 {
		if err := a.carryOut(ctx, w, todo, file); err != nil {
			return err
		}
	}
	if w.Tasks != nil {
		if err := w.Tasks.End(); err != nil {
			return failedf("%w", err)
		}
		return nil
	}
	if flags.quiet {
		return nil
	}
	return a.printBenchSummary(w)
}

// openResults opens the results file.
func openResults(w *benchWork) (*os.File, error) {
	file, err := w.Open()
	if errors.Is(err, sweep.ErrBusy) {
		return nil, failedf("--out: %w", err)
	}
	if err != nil {
		return nil, openError("--out", err)
	}
	return file, nil
}

// maxGroups is how many sections the table at the end has at most.
const maxGroups = 24

// printBenchSummary prints a summary of a sweep's results, and the next command to use.
func (a *app) printBenchSummary(w *benchWork) error {
	file, err := os.Open(w.Out)
	if err != nil {
		return failedf("--out: %w", err)
	}
	defer file.Close() //nolint:errcheck // it is only read
	rs, err := report.Decode(file, w.Out)
	if err != nil {
		return err
	}
	rs = slices.DeleteFunc(rs, func(r *report.Result) bool {
		return !slices.ContainsFunc(w.Cases, func(c sweep.Case) bool { return c.Hash == r.RunSHA256 })
	})
	if report.Sections(rs) <= maxGroups && len(rs) > 0 {
		if err := report.Summary(a.stdout, rs); err != nil {
			return err
		}
	}
	page := strings.TrimSuffix(w.Out, ".jsonl") + ".html"
	fmt.Fprintf(a.stderr, "%s in %s; next: ethereal report %s --html %s\n", fabric.Count(len(rs), "result"), w.Out, w.Out, page)
	return nil
}

// benchWork is the sweep, the cases and the output of one bench command.
type benchWork struct {
	sweep.Work
	flags benchFlags
	path  string
}

func (a *app) planBench(path string, flags benchFlags) (*benchWork, error) {
	w := &benchWork{flags: flags, path: path, Work: sweep.Work{Out: flags.out, Version: provenance(a.version), Place: thisMachine(), Full: flags.full}}
	var err error
	if w.Sweep, err = sweep.Load(path); err != nil {
		return nil, explainWrongKind(path, "sweep", err)
	}
	if w.Cases, err = chooseCases(w.Sweep, flags); err != nil {
		return nil, err
	}
	if flags.divide != nil {
		if err := flags.divide(w); err != nil {
			return nil, err
		}
	}
	if w.Out == "" {
		w.Out = fileName(w.Sweep.Name) + ".jsonl"
	}
	return w, nil
}

// carryOut executes the missing runs and appends their results to a file.
func (a *app) carryOut(ctx context.Context, w *benchWork, todo []sweep.Case, file *os.File) error {
	flags, runs := w.flags, sweep.Runs(todo)
	estimates, err := a.estimateRuns(scenario.WorldVirtual, runs, flags.parallel, flags.cores, flags.force, flags.quiet)
	if err != nil {
		return err
	}
	shown := newProgress(a.stderr, runs, estimates, a.live, flags.quiet)
	for i, c := range todo {
		shown.names[i] = c.String()
	}
	written, failed := w.CarryOut(ctx, todo, &runner.Batch{
		Run: runner.Timed(a.run), Runs: runs, Parallel: flags.parallel, Cores: flags.cores, Log: a.log, Progress: shown,
	}, file)
	if errors.Is(failed, errInterrupted) {
		return fmt.Errorf("%w; %s has %d of them, and the same command runs the rest", failed, w.Out, written)
	}
	if failed != nil {
		return failedf("%w", failed)
	}
	return nil
}

// chooseCases returns the cases that the flags select.
func chooseCases(s *sweep.Sweep, flags benchFlags) ([]sweep.Case, error) {
	only, err := regexp.Compile(flags.only)
	if err != nil {
		return nil, fmt.Errorf("--only: %w; write a regular expression, as in 'ecmp.*seed 1'", err)
	}
	wanted, err := flags.schemes.schemeCounters()
	if err != nil {
		return nil, fmt.Errorf("--schemes: %w", err)
	}
	var seeds scenario.Seeds
	if flags.seeds != "" {
		if seeds, err = scenario.ParseSeeds(flags.seeds); err != nil {
			return nil, fmt.Errorf("--seeds: %w; write for example 7, 1,2,5 or 1..10", err)
		}
	}
	var out []sweep.Case
	for _, c := range s.Cases {
		if len(seeds) > 0 && !slices.Contains(seeds, c.Run.Seed) {
			continue
		}
		if len(wanted) > 0 {
			asked := false
			for _, key := range []string{c.Run.Scheme.Name, c.Run.Scheme.String()} {
				if n, ok := wanted[key]; ok {
					wanted[key], asked = n+1, true
				}
			}
			if !asked {
				continue
			}
		}
		if only.MatchString(c.String()) {
			out = append(out, c)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if wanted[name] == 0 {
			return nil, fmt.Errorf("--schemes: the sweep has no scheme %q", name)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("--only, --schemes, --seeds: no run of the sweep matches; --dry-run lists them")
	}
	return out, nil
}

// fileName turns a name into one that a file can have anywhere.
func fileName(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '-', r == '_':
			return r
		}
		return '-'
	}, name)
}
