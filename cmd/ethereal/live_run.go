//go:build linux

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/ethereal-fabric/ethereal/testbed/runner"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/coordinator"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/live"
)

// besideFlags are the flags of `ethereal live run`.
type besideFlags struct {
	runFlags
	from string
}

// liveRunCommand makes `ethereal live run`.
func (a *app) liveRunCommand() *cobra.Command {
	var flags besideFlags
	c := &cobra.Command{
		Use:   "run EXPERIMENT [flags] -- PROGRAM [ARGUMENT]...",
		Short: "Carry out an experiment's steps while a program uses the fabric that is up",
		Long: `Runs a program on this machine, and meanwhile carries out the steps of an experiment in the fabric that is up:
the program takes the place of the experiment's collectives. Programs reach the hosts by ethereal live exec and ethereal
live mpirun. The experiment's result goes to standard error. The exit code is the program's, or 1 if the program succeeds
and an expectation does not hold. In the end all failures are undone. Connections of RDMA programs that run already end.`,
		Example: `  ethereal live run testbed/training/cuts.yaml -- ethereal live mpirun -- python3 testbed/training/train.py
  ethereal live run mininet/experiments/flap.yaml -- ethereal live exec h0 -- ping -c 20 10.1.0.2`,
		Args: func(c *cobra.Command, args []string) error {
			if c.ArgsLenAtDash() != 1 || len(args) < 2 {
				return errors.New("live run: name one experiment, then -- and the program, as in " +
					"ethereal live run cuts.yaml -- ethereal live mpirun ./a.out")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			flags.world = scenario.WorldLive
			return a.runBeside(c.Context(), args[0], args[1:], flags)
		},
	}
	f := c.Flags()
	f.StringVar(&flags.from, "start-line", "", "count the steps' times from the program's first line with `TEXT`; "+
		"by default from its start")
	f.Var(&flags.schemes, "schemes", "use these schemes, `A,B`; with parameters as in 'jsq,spray(mode=random)'")
	f.StringVar(&flags.seeds, "seeds", "", "use these `SEEDS`; written as 7, as 1,2,5 or as 1..10")
	f.StringVar(&flags.record, "record", "", "write a record of events to `FILE`, as JSON lines")
	f.BoolVarP(&flags.quiet, "quiet", "q", false, "print less; only whether expectations held, without the events")
	return c
}

// runBeside carries out an experiment beside a program.
func (a *app) runBeside(ctx context.Context, file string, program []string, flags besideFlags) (err error) {
	d, err := live.Deployment()
	if err != nil {
		return failedf("%w", err)
	}
	flags.attached = d
	p, err := planRuns([]string{file}, flags.runFlags)
	if err != nil {
		return err
	}
	if len(p.skipped) > 0 {
		return fmt.Errorf("live run: %s is not for the live world: %s", file, p.skipped[0].Skipped)
	}
	if len(p.runs) != 1 {
		return fmt.Errorf("live run: %s has %d runs, but a program runs once: have it one failure case, collective, notifier, scheme "+
			"and seed; --schemes and --seeds choose", file, len(p.runs))
	}
	o := &runner.Outcome{Run: p.runs[0], World: flags.world, Record: &runner.Record{}}
	var records io.WriteCloser
	if flags.record != "" {
		if records, err = createOutput(ctx, "--record", flags.record); err != nil {
			return err
		}
		defer closeFile(records, &err)
	}
	w, err := runner.Attach(ctx, d, nil)
	if err != nil {
		return failedf("%w", err)
	}
	defer w.Close() //nolint:errcheck // nothing is left to say
	began := time.Now()
	obs := scenario.Observer{Log: a.log, Happened: o.Record.Add}
	o.Result, o.Err = w.Beside(ctx, o.Run, obs, a.userProgram(program, flags.from))
	o.Took = time.Since(began)
	return a.printBesideOutcome(o, records, flags.quiet)
}

// userProgram returns a runner for a user's program, with this process's standard files.
func (a *app) userProgram(words []string, from string) coordinator.Program {
	return func(ctx context.Context, begun func()) error {
		c := exec.CommandContext(ctx, words[0], words[1:]...)
		c.Stdin, c.Stdout, c.Stderr = os.Stdin, a.stdout, a.stderr
		if from != "" {
			c.Stdout = &lineWatch{w: a.stdout, text: []byte(from), found: begun}
		}
		c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
		c.WaitDelay = programTimeout
		if err := c.Start(); err != nil {
			return err
		}
		if from == "" {
			begun()
		}
		return c.Wait()
	}
}

// programTimeout is how long a program may take to end after SIGTERM.
const programTimeout = 10 * time.Second

// lineWatch is a writer that forwards its input, and calls found at the first line that contains a text.
type lineWatch struct {
	w     io.Writer
	text  []byte
	found func()
	line  []byte // the end of the last one, while it has no end: what may begin the text
}

// Write implements [io.Writer].
func (l *lineWatch) Write(b []byte) (int, error) {
	if l.found != nil {
		l.line = append(l.line, b...)
		if bytes.Contains(l.line, l.text) {
			l.found()
			l.found, l.line = nil, nil
		} else {
			from := max(bytes.LastIndexByte(l.line, '\n')+1, len(l.line)-len(l.text)+1)
			l.line = append(l.line[:0], l.line[from:]...)
		}
	}
	return l.w.Write(b)
}

// printBesideOutcome prints an outcome, and returns the error that says the exit code.
func (a *app) printBesideOutcome(o *runner.Outcome, records io.Writer, quiet bool) error {
	o.Judge()
	failed := printOutcome(a.stderr, o, quiet)
	if records != nil {
		failed = errors.Join(failed, o.Record.Encode(records, o.Run, o.World))
	}
	if exit, ok := errors.AsType[*exec.ExitError](o.Err); ok && errors.Is(o.Err, coordinator.ErrProgram) && exit.Exited() {
		return programExitCode(exit.ExitCode())
	}
	if o.Err == nil && !o.ExpectationsMet() {
		failed = errors.Join(failed, fmt.Errorf("not as expected: %s", o.Name()))
	}
	if failed = cmp.Or(o.Err, failed); failed != nil {
		return failedf("%w", failed)
	}
	return nil
}
