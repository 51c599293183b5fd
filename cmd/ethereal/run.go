package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/pprof"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/strictyaml"
	"github.com/ethereal-fabric/ethereal/testbed/deployment"
	"github.com/ethereal-fabric/ethereal/testbed/runner"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/virtual"
)

// runFlags are the flags of `ethereal run`.
type runFlags struct {
	out, html, events  string
	flows              string
	format             outputFormat
	record, deployment string
	trace              traceFlags
	pcap               []string
	seeds              string
	schemes            schemeList
	notifiers          []string
	carrier            string
	parallel, cores    int
	world              string
	view               viewFlags
	liveSwitches
	quiet        bool
	cpuProfile   string
	check, force bool
	strict       bool
	replay       replayFlags
	given        func(flag string) bool
	attached     *deployment.File // of ethereal live run; nil: as deployment says
}

func (a *app) runCommand() *cobra.Command {
	var flags runFlags
	c := &cobra.Command{
		Use:   "run SCENARIO...",
		Short: "Run scenarios: in virtual time, live on this machine, or on a running fabric",
		Long: `Runs scenario files: each failure case with each collective, notifier, scheme and seed is one run. Runs are independent and
use all cores. A table goes to standard output, progress to standard error. A scenario with expectations prints its events
in order of time; the exit code says whether all expectations held. A run that did not finish (DNF) without an expectation is a
result, not a failure, except with --strict.

If there is more than one run, --events, --flows, --trace and --pcap write one file per run, with the run's number and
name before the extension. Only the named files are overwritten.`,
		Example: `  ethereal run testbed/scenarios/demo.yaml --html report.html
  ethereal run testbed/scenarios/demo.yaml --schemes ecmp --seeds 1..10 --out ecmp.jsonl
  ethereal run testbed/scenarios/demo.yaml --schemes ethereal --notifiers quench --pcap tor0-agg1=uplink.pcap
  ethereal run mininet/experiments/single-link.yaml mininet/experiments/flap.yaml --world live
  ethereal run lab.yaml --replay controller.jsonl --replay-from 41.2s --replay-speed 1000`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("run: name a scenario file, as in ethereal run testbed/scenarios/demo.yaml")
			}
			return nil
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(c *cobra.Command, args []string) error {
			flags.given = c.Flags().Changed
			return a.runScenarios(c.Context(), args, flags)
		},
	}
	f := c.Flags()
	flags.format.register(c, formatTable, formatRows, formatJSON)
	f.StringVar(&flags.out, "out", "", "write results to `FILE`; one line of JSON per run")
	f.StringVar(&flags.html, "html", "", "write the page, one self-contained file, to `FILE`")
	f.StringVar(&flags.events, "events", "", "write the event log of each run to `FILE`")
	f.StringArrayVar(&flags.pcap, "pcap", nil, "capture a link's packets, `LINK=FILE`, as in tor0-agg1=uplink.pcap; may be given again")
	f.StringVar(&flags.flows, "flows", "", "write the completion time of each message to `FILE`, as CSV")
	f.StringVar(&flags.seeds, "seeds", "", "use these `SEEDS`; written as 7, as 1,2,5 or as 1..10")
	f.Var(&flags.schemes, "schemes", "use these schemes, `A,B`; with parameters as in 'jsq,spray(mode=random)'")
	f.StringVar(&flags.carrier, "carrier", "", "carry labels in `FIELD`; "+
		strings.Join(scenario.Carriers(), ", ")+"; ipv6-flowlabel also makes hosts speak IPv6")
	f.StringSliceVar(&flags.notifiers, "notifiers", nil, "use these notifiers, `A,B`; each is timeout, quench, gnmi or all")
	f.IntVar(&flags.parallel, "parallel", runtime.GOMAXPROCS(0), "run `N` at a time")
	f.IntVar(&flags.cores, "cores", 0, "simulate each run on `N` cores, with the same result (default: the cores that --parallel "+
		"leaves; 1 below 64 hosts)")
	f.StringVar(&flags.world, "world", scenario.WorldVirtual, "run in `WORLD`; one of virtual (packets in virtual time), flow (rates in place of "+
		"packets), live (network namespaces of this machine, one run at a time), mininet or lab (both with --deployment)")
	f.StringVar(&flags.deployment, "deployment", "", "reach switches and hosts as `FILE` says; for the worlds mininet and lab. "+
		"Scenarios then run on this file's fabric, not on their own")
	f.StringVar(&flags.record, "record", "", "write a record of events to `FILE`, as JSON lines")
	f.BoolVarP(&flags.quiet, "quiet", "q", false, "print less; no progress, and only whether expectations held, without the events")
	f.BoolVar(&flags.check, "check", false, "repeat every run without the P4 program's fast path, and fail if "+
		"anything differs")
	f.BoolVar(&flags.force, "force", false, "override a refusal; here: of runs that need more memory than there is, by the estimate")
	f.BoolVar(&flags.strict, "strict", false, "exit with 1 for more; here: also if a run did not finish by its deadline, unless its scenario "+
		"expects something of \"finished\"")
	f.StringVar(&flags.cpuProfile, "cpuprofile", "", "write a CPU profile of the program to `FILE`")
	flags.view.register(f)
	flags.register(c, false)
	flags.trace.register(f)
	flags.replay.register(f)
	// The only errors are of flags that do not exist.
	_ = c.RegisterFlagCompletionFunc("world", cobra.FixedCompletions(scenario.WorldNames(),
		cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("schemes", cobra.FixedCompletions(scenario.SchemeNames(),
		cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("carrier", cobra.FixedCompletions(scenario.Carriers(), cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("notifiers", cobra.FixedCompletions([]string{"timeout", "quench", "gnmi", "all"},
		cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (a *app) runScenarios(ctx context.Context, files []string, flags runFlags) (err error) {
	if err := flags.checkWorld(); err != nil {
		return err
	}
	p, err := planRuns(files, flags)
	if err != nil {
		return err
	}
	if err := whyRefused(flags.world, p.runs); err != nil {
		return err
	}
	if err := checkCores(flags.parallel, flags.cores); err != nil {
		return err
	}
	run, done, err := a.enterWorld(ctx, &flags)
	if err != nil {
		return err
	}
	defer done()
	if p.replayed != "" && !flags.quiet {
		fmt.Fprintln(a.stderr, p.replayed)
	}
	if !flags.quiet {
		a.printNotes(flags.world, p.runs, flags.seeds == "")
	}
	captures, err := parseCaptures(flags.pcap, p.runs, files)
	if err != nil {
		return err
	}
	recordings, err := flags.trace.recordingOptions(p.runs)
	if err != nil {
		return err
	}
	if err := checkOutputs(files, flags, captures, p.runs); err != nil {
		return err
	}

	var estimates []virtual.Estimate
	if flags.world == scenario.WorldVirtual || flags.world == scenario.WorldFlow {
		if estimates, err = a.estimateRuns(flags.world, p.runs, flags.parallel, flags.cores, flags.force, flags.quiet); err != nil {
			return err
		}
	}

	// Files are opened before anything runs, so that a bad path costs no time.
	t := &runPrinter{app: a, flags: flags, files: files, lines: io.Discard, table: a.stdout, runs: p.runs, skipped: p.skipped}
	if flags.format.String() == formatJSON {
		t.lines, t.table = a.stdout, a.stderr
	}
	for _, o := range []struct {
		flag, path string
		into       *io.Writer
	}{
		{"--out", flags.out, &t.lines}, {"--html", flags.html, &t.page},
		{"--record", flags.record, &t.records}, {"--cpuprofile", flags.cpuProfile, &t.profile},
	} {
		if o.path == "" {
			continue
		}
		file, err := createOutput(ctx, o.flag, o.path)
		if err != nil {
			return err
		}
		defer closeFile(file, &err)
		*o.into = file
	}
	if t.profile != nil {
		if err := pprof.StartCPUProfile(t.profile); err != nil {
			return failedf("--cpuprofile: %w", err)
		}
		defer pprof.StopCPUProfile()
	}

	b := &runner.Batch{
		Run: runner.Timed(run), Runs: p.runs, World: flags.world, Parallel: flags.parallel, Cores: flags.cores,
		Events: flags.events, Flows: flags.flows, Captures: captures, Trace: flags.trace.path, Recordings: recordings, Record: t.records != nil,
		Log: a.log, Progress: newProgress(a.stderr, p.runs, estimates, a.live, flags.quiet), Done: t.printEnded,
	}
	results, failed := b.Execute(ctx)
	return t.printAll(results, failed)
}

// runPlan is the list of runs that scenario files and flags select.
type runPlan struct {
	runs     []scenario.Run
	skipped  []*runner.Outcome // of scenarios that have a reason not to be run in this world
	replayed string            // a line about a replay
}

// planRuns reads the scenarios, applies the flags, fits them to the world and expands them.
func planRuns(files []string, flags runFlags) (p runPlan, err error) {
	over := scenario.Override{Schemes: flags.schemes}
	if flags.seeds != "" {
		if over.Seeds, err = scenario.ParseSeeds(flags.seeds); err != nil {
			return p, fmt.Errorf("--seeds: %w; write for example 7, 1,2,5 or 1..10", err)
		}
	}
	over.Carrier = scenario.Carrier(flags.carrier)
	for _, n := range flags.notifiers {
		over.Notifiers = append(over.Notifiers, scenario.Notifier(n))
	}
	if flags.replay.log != "" && len(files) > 1 {
		return p, errors.New("--replay: several scenarios; name one")
	}
	d := flags.attached
	if flags.deployment != "" {
		if d, err = deployment.Load(flags.deployment); err != nil {
			return p, err
		}
	}
	if d != nil {
		spec, err := fabric.LoadSpec(d.Fabric)
		if err != nil {
			return p, err
		}
		over.Fabric = &spec
	}
	var bad strictyaml.Errors
	for _, name := range files {
		s, err := scenario.Load(name)
		err = explainWrongKind(name, "scenario", err)
		if es, ok := errors.AsType[strictyaml.Errors](err); ok {
			bad = append(bad, es...)
			continue
		}
		if err != nil {
			return p, err
		}
		if s, p.replayed, err = flags.withReplay(s); err != nil {
			return p, err
		}
		if flags.attached != nil && s.Adapts() && s.Worlds.Live.Rate == 0 {
			s.Worlds.Live.Rate = over.Fabric.HostLink.Rate
		}
		if s, err = s.Override(over); err != nil {
			return p, errorFromFlags(err)
		}
		if why := s.Worlds.For(flags.world).Skip; why != "" {
			p.skipped = append(p.skipped, &runner.Outcome{Run: scenario.Run{Scenario: s}, World: flags.world, Skipped: why,
				Record: &runner.Record{}})
			continue
		}
		runs, err := s.ForWorld(flags.world).Expand()
		if err != nil {
			return p, err
		}
		for _, r := range runs {
			r.Index = len(p.runs)
			p.runs = append(p.runs, r)
		}
	}
	return p, bad.Err()
}

// errorFromFlags words errors about a valid scenario that flags have made invalid.
func errorFromFlags(err error) error {
	var es strictyaml.Errors
	if !errors.As(err, &es) {
		return err
	}
	var out []error
	seen := map[string]bool{}
	for _, e := range es {
		flag := "on the --deployment's fabric: " + e.Key
		switch {
		case strings.HasSuffix(e.Key, "notifiers"), strings.Contains(e.Key, "notifiers["):
			flag = "--notifiers"
		case strings.HasPrefix(e.Key, "schemes"):
			flag = "--schemes"
		case strings.HasPrefix(e.Key, "seeds"):
			flag = "--seeds"
		case e.Key == "host.carrier":
			flag = "--carrier"
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
func closeFile(f io.Closer, err *error) {
	if e := f.Close(); e != nil && *err == nil {
		*err = failedf("%w", e)
	}
}
