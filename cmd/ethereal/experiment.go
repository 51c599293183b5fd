package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ethereal-fabric/ethereal/testbed/experiment"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/live"
)

// experimentFlags are the flags of `ethereal experiment`.
type experimentFlags struct {
	world, deployment, json, report, record string
	quiet                                   bool
}

// experimentCommand makes `ethereal experiment`.
func (a *app) experimentCommand() *cobra.Command {
	var flags experimentFlags
	c := &cobra.Command{
		Use:   "experiment FILE...",
		Short: "Do things to a fabric at times, and check what is expected",
		Long: `Carries out experiments: a scenario's fabric and collective, steps that are done at times (links, switches, the
controller, agents, drains), and what is expected of the outcome. The same files run in every world. What happened is
printed in order of time; the exit code says whether all expectations held.`,
		Example: `  ethereal experiment mininet/experiments/single-link.yaml
  ethereal experiment mininet/experiments/single-link.yaml mininet/experiments/flap.yaml --report report.html`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("experiment: name a file, for example mininet/experiments/single-link.yaml")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return a.experiments(c.Context(), args, flags) },
	}
	f := c.Flags()
	f.StringVar(&flags.world, "world", experiment.Virtual, "`WORLD`: "+strings.Join(experiment.WorldNames(), ", "))
	f.StringVar(&flags.deployment, "deployment", "", "of the worlds mininet and lab: `FILE` that says where switches and hosts are")
	f.StringVar(&flags.json, "json", "", "write the result of each experiment to `FILE`, as JSON lines")
	f.StringVar(&flags.record, "record", "", "write all that happened to `FILE`, as JSON lines")
	f.StringVar(&flags.report, "report", "", "write a report with timelines, a self-contained HTML page, to `FILE`")
	f.BoolVarP(&flags.quiet, "quiet", "q", false, "print verdicts only")
	// The only error is of a flag that does not exist.
	_ = c.RegisterFlagCompletionFunc("world", cobra.FixedCompletions(experiment.WorldNames(), cobra.ShellCompDirectiveNoFileComp))
	return c
}

// experiments runs all files in one world.
func (a *app) experiments(ctx context.Context, files []string, flags experimentFlags) (err error) {
	var all []*experiment.Experiment
	var bad []error
	for _, name := range files {
		e, err := experiment.Load(name)
		if err != nil {
			bad = append(bad, err)
			continue
		}
		all = append(all, e)
	}
	if len(bad) > 0 {
		return errors.Join(bad...)
	}
	world, done, err := a.experimentWorld(ctx, flags)
	if err != nil {
		return err
	}
	defer done()
	out := map[string]io.Writer{}
	for flag, path := range map[string]string{"--json": flags.json, "--record": flags.record, "--report": flags.report} {
		if path == "" {
			out[flag] = io.Discard
			continue
		}
		file, err := create(flag, path)
		if err != nil {
			return err
		}
		defer closeFile(file, &err)
		out[flag] = file
	}
	var outcomes []*experiment.Outcome
	var results []*report.Result
	var failed []string
	for _, e := range all {
		o, err := experiment.Run(ctx, e, world)
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %s", errInterrupted, e.Scenario.Name)
		}
		if outcomes = append(outcomes, o); err != nil || !o.Held() {
			failed = append(failed, e.Scenario.Name)
		}
		if err := a.tellOutcome(o, flags.quiet); err != nil {
			return fmt.Errorf("%w: %w", errRun, err)
		}
		if o.Result == nil {
			continue
		}
		results = append(results, o.Result)
		err = errors.Join(report.Encode(out["--json"], o.Result), o.Record.Encode(out["--record"], e.Scenario.Name, o.World))
		if err != nil {
			return fmt.Errorf("%w: %w", errRun, err)
		}
	}
	if len(results) > 0 {
		if err := report.HTML(out["--report"], results, report.Page{Version: a.version}); err != nil {
			return fmt.Errorf("%w: --report: %w", errRun, err)
		}
	}
	if len(outcomes) > 1 {
		if err := experiment.Summary(a.stdout, outcomes); err != nil {
			return fmt.Errorf("%w: %w", errRun, err)
		}
	}
	switch {
	case len(failed) == 0:
		return nil
	case len(outcomes) == 1 && outcomes[0].Err != nil:
		return fmt.Errorf("%w: %w", errRun, outcomes[0].Err)
	}
	return fmt.Errorf("%w: not as expected: %s", errRun, strings.Join(failed, ", "))
}

// tellOutcome prints what happened in an experiment and what became of its
// expectations.
func (a *app) tellOutcome(o *experiment.Outcome, quiet bool) error {
	var b strings.Builder
	name := o.Experiment.Scenario.Name
	switch {
	case o.Skipped != "":
		fmt.Fprintf(&b, "%s (%s): skipped: %s\n", name, o.World, o.Skipped)
	case quiet:
		fmt.Fprintf(&b, "%s (%s)\n", name, o.World)
	default:
		fmt.Fprintf(&b, "%s (%s): %s\n", name, o.World, o.Experiment.Scenario.Description)
		if err := o.Record.Text(&b); err != nil {
			return err
		}
	}
	for _, v := range o.Verdicts {
		word := "ok"
		if !v.Held {
			word = "FAILED"
		}
		fmt.Fprintf(&b, "  %-6s %v\n", word, v)
	}
	if o.Err != nil {
		fmt.Fprintf(&b, "  %-6s %v\n", "ERROR", o.Err)
	}
	if o.Result != nil && !quiet {
		if err := report.Table(&b, []*report.Result{o.Result}); err != nil {
			return err
		}
	}
	b.WriteString("\n")
	_, err := io.WriteString(a.stdout, b.String())
	return err
}

// experimentWorld returns the world that the flags name, and what to call when
// all is over.
func (a *app) experimentWorld(ctx context.Context, flags experimentFlags) (w experiment.World, done func(), err error) {
	switch {
	case flags.world == experiment.Virtual:
		return experiment.NewVirtual(experiment.Runner(a.run)), func() {}, nil
	case flags.world == experiment.Live:
		dir, ok := live.Inside()
		if !ok {
			code, err := live.Enter(ctx, os.Args[1:])
			if err != nil {
				return nil, nil, fmt.Errorf("%w: %w", errRun, err)
			}
			return nil, nil, endedWith(code)
		}
		return experiment.NewLive(dir, a.log), func() {}, nil
	case slices.Contains(experiment.WorldNames(), flags.world):
		if flags.deployment == "" {
			return nil, nil, fmt.Errorf("--world %s takes --deployment FILE; mininet/run.py writes one", flags.world)
		}
		d, err := experiment.LoadDeployment(flags.deployment)
		if err != nil {
			return nil, nil, err
		}
		w, err := experiment.Attach(ctx, flags.world, d, nil)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: %w", errRun, err)
		}
		return w, func() { w.Close() }, nil //nolint:errcheck // nothing is left to say
	}
	return nil, nil, fmt.Errorf("--world: %q is unknown; write one of %s", flags.world, strings.Join(experiment.WorldNames(), ", "))
}
