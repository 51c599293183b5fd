package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ethereal-fabric/ethereal/fabric/strictyaml"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/runner"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/scenario/replay"
)

// runFlags are the flags of `ethereal run`.
type runFlags struct {
	json, report, events string
	pcap                 []string
	seeds                string
	schemes              schemeList
	notifiers            []string
	parallel, cores      int
	world                string
	quiet                bool
	cpuProfile           string
	check                bool
	replay               replayFlags
}

func (a *app) runCommand() *cobra.Command {
	var flags runFlags
	c := &cobra.Command{
		Use:   "run SCENARIO",
		Short: "Run a scenario, in virtual time or on this machine",
		Long: `Runs everything a scenario file asks for: each failure case with each collective, notifier, scheme and seed is one
run. Runs are independent and use all cores. A table goes to standard output, progress to standard error.

Where a file is written per run (--events, --pcap) and there is more than one run, the run's number and name go
before the file's extension. Nothing is overwritten but the files named.`,
		Example: `  ethereal run testbed/scenarios/demo.yaml --report report.html
  ethereal run testbed/scenarios/demo.yaml --schemes ecmp --seed 1..10 --json ecmp.jsonl
  ethereal run testbed/scenarios/demo.yaml --schemes ethereal --notifiers quench --pcap tor0-agg1=uplink.pcap
  ethereal run lab.yaml --replay controller.jsonl --replay-from 41.2s --replay-speed 1000`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("run takes one scenario file, not %d; as in ethereal run testbed/scenarios/demo.yaml", len(args))
			}
			return nil
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(c *cobra.Command, args []string) error { return a.runScenario(c.Context(), args[0], flags) },
	}
	f := c.Flags()
	f.StringVar(&flags.json, "json", "", "write one JSON object per run to `FILE`; - is standard output, and the table goes to standard error")
	f.StringVar(&flags.report, "report", "", "write the report, a self-contained HTML page, to `FILE`")
	f.StringVar(&flags.events, "events", "", "write the event log of each run to `FILE`")
	f.StringArrayVar(&flags.pcap, "pcap", nil, "capture a link's packets: `LINK=FILE`, as in tor0-agg1=uplink.pcap; may be repeated")
	f.StringVar(&flags.seeds, "seed", "", "use these `SEEDS` instead of the scenario's: 7, or 1,2,5, or 1..10")
	f.Var(&flags.schemes, "schemes", "run these schemes instead of the scenario's: `A,B`, with parameters as in 'jsq,spray(mode=random)'")
	f.StringSliceVar(&flags.notifiers, "notifiers", nil, "use these notifiers in every case in which something fails: `A,B` of timeout, quench, gnmi, all")
	f.IntVar(&flags.parallel, "parallel", runtime.GOMAXPROCS(0), "run `N` at a time")
	f.IntVar(&flags.cores, "cores", 0, "simulate each run on `N` cores, with the same result (default: those that runs beside each other leave, for 64 hosts and more)")
	f.StringVar(&flags.world, "world", worldVirtual, "`WORLD` to run in: virtual; flow, rates without packets; or live, on network namespaces of this machine, one run at a time")
	f.BoolVarP(&flags.quiet, "quiet", "q", false, "show no progress")
	f.BoolVar(&flags.check, "check", false, "carry every run out once more without the P4 program's fast path, and fail if anything differs")
	f.StringVar(&flags.cpuProfile, "cpuprofile", "", "write a CPU profile of the program to `FILE`")
	flags.replay.register(f)
	// The only errors are of flags that do not exist.
	_ = c.RegisterFlagCompletionFunc("schemes", cobra.FixedCompletions(scenario.SchemeNames(), cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("notifiers", cobra.FixedCompletions([]string{"timeout", "quench", "gnmi", "all"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (a *app) runScenario(ctx context.Context, path string, flags runFlags) (err error) {
	runs, told, err := plan(path, flags)
	if err != nil {
		return err
	}
	if told != "" && !flags.quiet {
		fmt.Fprintln(a.stderr, told)
	}
	if flags.parallel < 1 {
		return fmt.Errorf("--parallel: %d; write 1 or more", flags.parallel)
	}
	if flags.cores < 0 {
		return fmt.Errorf("--cores: %d; write 1 or more, or 0 for as many as are left", flags.cores)
	}
	run, done, err := a.enterWorld(ctx, &flags)
	if err != nil {
		return err
	}
	defer done()
	captures, err := parseCaptures(flags.pcap, runs, path)
	if err != nil {
		return err
	}
	if err := checkOutputs(path, flags, captures, runs); err != nil {
		return err
	}

	// Files are opened before anything runs, so that a bad path costs no time.
	var lines, page io.Writer = io.Discard, nil
	table := a.stdout
	if flags.json == "-" {
		lines, table = a.stdout, a.stderr
	} else if flags.json != "" {
		file, err := create("--json", flags.json)
		if err != nil {
			return err
		}
		defer closeFile(file, &err)
		lines = file
	}
	if flags.report != "" {
		file, err := create("--report", flags.report)
		if err != nil {
			return err
		}
		defer closeFile(file, &err)
		page = file
	}
	if flags.cpuProfile != "" {
		file, err := create("--cpuprofile", flags.cpuProfile)
		if err != nil {
			return err
		}
		defer closeFile(file, &err)
		if err := pprof.StartCPUProfile(file); err != nil {
			return fmt.Errorf("%w: --cpuprofile: %w", errRun, err)
		}
		defer pprof.StopCPUProfile()
	}

	b := &batch{
		run: Runner(runner.Timed(runner.Run(run))), runs: runs, parallel: flags.parallel, cores: flags.cores, events: flags.events, captures: captures, log: a.log,
		progress: newProgress(a.stderr, len(runs), a.live, flags.quiet),
		done: func(run scenario.Run, r *report.Result) (err error) {
			r.Version = a.version
			if r.RunSHA256, err = run.Hash(); err != nil {
				return err
			}
			return report.Encode(lines, r)
		},
	}
	results, failed := b.execute(ctx)
	if len(results) > 0 {
		if err := report.Table(table, results); err != nil {
			failed = errors.Join(failed, err)
		}
	}
	if flags.check && failed == nil && !flags.quiet {
		fmt.Fprintf(a.stderr, "check: %d runs came out the same once more, through the P4 interpreter and in one region\n", len(results))
	}
	if page != nil {
		if err := report.HTML(page, results, a.page(path)); err != nil {
			failed = errors.Join(failed, err)
		} else if !flags.quiet {
			fmt.Fprintf(a.stderr, "report: %s\n", flags.report)
		}
	}
	if failed != nil && !errors.Is(failed, errInterrupted) {
		return fmt.Errorf("%w: %w", errRun, failed)
	}
	return failed
}

// plan reads the scenario, applies the flags and expands it. told is what there is to
// say of it.
func plan(path string, flags runFlags) (runs []scenario.Run, told string, err error) {
	s, err := scenario.Load(path)
	if err != nil {
		return nil, "", err
	}
	over := scenario.Override{Schemes: flags.schemes}
	if flags.seeds != "" {
		if over.Seeds, err = scenario.ParseSeeds(flags.seeds); err != nil {
			return nil, "", fmt.Errorf("--seed: %w; write for example 7, 1,2,5 or 1..10", err)
		}
	}
	for _, n := range flags.notifiers {
		over.Notifiers = append(over.Notifiers, scenario.Notifier(n))
	}
	var replayed replay.Case
	if s, replayed, told, err = flags.replayed(s); err != nil {
		return nil, "", err
	}
	if s, err = s.Override(over); err != nil {
		return nil, "", fromFlags(err)
	}
	runs, err = s.Expand()
	for i := range runs {
		runs[i].Interventions = replayed.Interventions
	}
	return runs, told, err
}

// fromFlags words errors about a valid scenario that flags have made invalid.
func fromFlags(err error) error {
	var es strictyaml.Errors
	if !errors.As(err, &es) {
		return err
	}
	var out []error
	seen := map[string]bool{}
	for _, e := range es {
		flag := "--notifiers"
		switch {
		case strings.HasPrefix(e.Key, "schemes"):
			flag = "--schemes"
		case strings.HasPrefix(e.Key, "seeds"):
			flag = "--seed"
		}
		// Each failure case has the same notifiers.
		text := fmt.Sprintf("%s: %s; %s", flag, e.Problem, e.Remedy)
		if !seen[text] {
			seen[text] = true
			out = append(out, errors.New(text))
		}
	}
	return errors.Join(out...)
}

// closeFile closes a file that was written, and reports in err, when there is
// no error yet, that it could not be.
func closeFile(f *os.File, err *error) {
	if e := f.Close(); e != nil && *err == nil {
		*err = fmt.Errorf("%w: %w", errRun, e)
	}
}
