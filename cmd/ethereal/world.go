package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ethereal-fabric/ethereal/testbed/deployment"
	"github.com/ethereal-fabric/ethereal/testbed/runner"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/flow"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/live"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/virtual"
)

// endedWith is the exit code of a program that this one has started in its place,
// and that has said all there is to say.
type endedWith int

func (e endedWith) Error() string { return fmt.Sprintf("ended with %d", int(e)) }

// viewFlag defines --view, whose value may be left out.
func viewFlag(c *cobra.Command, view *string) {
	c.Flags().StringVar(view, "view", "", "serve the live page of the fabric at `HOST:PORT`, a loopback address of this machine (127.0.0.1:0 when left out)")
	c.Flags().Lookup("view").NoOptDefVal = "127.0.0.1:0"
}

// liveSwitches are flags of what the live world's switches are.
type liveSwitches struct{ datapath, pins string }

func (l *liveSwitches) register(c *cobra.Command) {
	c.Flags().StringVar(&l.pins, "pins", "", "the live world's switches run sai_p4, as SONiC's PINS does: `P4INFO,JSON` that p4c wrote of it")
	c.Flags().StringVar(&l.datapath, "datapath", live.Interpreter, "`WHERE` the live world's switches forward: interpreter, kernel, or routes, "+
		"as ethereal switch --datapath has it")
	// The only error is of a flag that does not exist.
	_ = c.RegisterFlagCompletionFunc("datapath", cobra.FixedCompletions(live.Datapaths(),
		cobra.ShellCompDirectiveNoFileComp))
}

// program returns what the switches run in place of ours, if anything.
func (l *liveSwitches) program() (p live.PINS, err error) {
	if err := live.CheckDatapath(l.datapath); err != nil {
		return p, fmt.Errorf("--datapath: %w", err)
	}
	if l.pins == "" {
		return p, nil
	}
	if l.datapath != live.Interpreter {
		return p, fmt.Errorf("--pins: not with --datapath %s, which has our program alone", l.datapath)
	}
	info, program, ok := strings.Cut(l.pins, ",")
	if !ok {
		return p, fmt.Errorf("--pins: %q is not P4INFO,JSON; p4c writes both, with --p4runtime-files FILE.txtpb -o FILE.json", l.pins)
	}
	for _, f := range []*string{&info, &program} {
		if _, err := os.Stat(*f); err != nil {
			return p, fmt.Errorf("--pins: %w", err)
		}
		if *f, err = filepath.Abs(*f); err != nil {
			return p, fmt.Errorf("--pins: %w", err)
		}
	}
	return live.PINS{P4Info: info, JSON: program}, nil
}

// enterLive has this program run in namespaces of its own, and returns how that ended. view is where the page of the fabric is
// served; empty: nowhere.
func enterLive(ctx context.Context, view string) error {
	var page *os.File
	if view != "" {
		var err error
		if page, err = live.ListenPage(view); err != nil {
			return fmt.Errorf("--view: %w", err)
		}
		defer page.Close() //nolint:errcheck // it was only passed on
	}
	code, err := live.Enter(ctx, os.Args[1:], page)
	if err != nil {
		return fmt.Errorf("%w: %w", errRun, err)
	}
	return endedWith(code)
}

// livePage returns the page of the fabric, inside of those namespaces, and tells its address; nil if none was asked for.
func (a *app) livePage(dir, view string) (*live.Page, error) {
	if view == "" {
		return nil, nil
	}
	page, err := live.PassedPage(dir)
	if err != nil {
		return nil, fmt.Errorf("%w: --view: %w", errRun, err)
	}
	fmt.Fprintf(a.stderr, "the fabric's page, once its controller runs: %s\n", page.URL)
	return page, nil
}

// enterWorld returns what carries out runs in the world that the flags name, and
// what to call when all are done. For the live world the program starts itself
// again, in namespaces of its own; the error is then how that ended.
func (a *app) enterWorld(ctx context.Context, flags *runFlags) (run runner.Run, done func(), err error) {
	pins, err := flags.program()
	if err != nil {
		return nil, nil, err
	}
	switch flags.world {
	case scenario.WorldVirtual:
		if flags.check {
			return virtual.Checked(a.run), func() {}, nil
		}
		return a.run, func() {}, nil
	case scenario.WorldFlow:
		return flow.Run, func() {}, nil
	case scenario.WorldLive:
		dir, ok := live.Inside()
		if !ok {
			return nil, nil, enterLive(ctx, flags.view)
		}
		page, err := a.livePage(dir, flags.view)
		if err != nil {
			return nil, nil, err
		}
		flags.parallel = 1
		w := runner.NewLive(live.Base{Dir: dir, Page: page, Datapath: flags.datapath, PINS: pins, Log: a.log})
		return w.Run, w.Close, nil
	case scenario.WorldMininet, scenario.WorldLab:
		if flags.deployment == "" {
			return nil, nil, fmt.Errorf("--world %s takes --deployment FILE; mininet/run.py writes one", flags.world)
		}
		d, err := deployment.Load(flags.deployment)
		if err != nil {
			return nil, nil, err
		}
		w, err := runner.Attach(ctx, d, nil)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: %w", errRun, err)
		}
		flags.parallel = 1
		return w.Run, func() { w.Close() }, nil //nolint:errcheck // nothing is left to say
	}
	return nil, nil, fmt.Errorf("--world: %q is unknown; write one of %s", flags.world, strings.Join(scenario.WorldNames(), ", "))
}
