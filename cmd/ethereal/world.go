package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ethereal-fabric/ethereal/controller/targets"
	"github.com/ethereal-fabric/ethereal/controller/targets/kinds"
	"github.com/ethereal-fabric/ethereal/testbed/deployment"
	"github.com/ethereal-fabric/ethereal/testbed/runner"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/flow"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/live"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/virtual"
)

// programExitCode is the exit code of a program that replaced this one, and that has already printed its messages.
type programExitCode int

func (e programExitCode) Error() string { return fmt.Sprintf("ended with %d", int(e)) }

// exitError is the error for a command's exit code.
func exitError(code int, err error) error {
	if err != nil {
		return failedf("%w", err)
	}
	if code != 0 {
		return programExitCode(code)
	}
	return nil
}

// viewFlags are the flags for the live page of a fabric.
type viewFlags struct {
	on   bool
	addr string
}

func (v *viewFlags) register(f *pflag.FlagSet) {
	f.BoolVar(&v.on, "view", false, "serve the live page of the fabric on this machine, and print its address")
	f.StringVar(&v.addr, "listen-view", "", "serve a page at `ADDR`, HOST:PORT, under a secret path that is printed; only on the loopback (default with --view: 127.0.0.1:0)")
}

// listenAddr returns where the page is served; empty: nowhere.
func (v *viewFlags) listenAddr() string {
	if v.on {
		return cmp.Or(v.addr, "127.0.0.1:0")
	}
	return v.addr
}

// liveSwitches are the flags that select the live world's switches.
type liveSwitches struct {
	datapath   string
	flagValues map[targets.Starter]*string // of the flags of kinds that have one
}

// register defines them; binaries: also those that name a program to run in place of ours.
func (l *liveSwitches) register(c *cobra.Command, binaries bool) {
	l.flagValues = map[targets.Starter]*string{}
	for _, k := range kinds.Starters() {
		if how := k.Start(); how.Value != "" && (binaries || !how.Binary) {
			l.flagValues[k] = c.Flags().String(k.Name(), "", how.Help)
		}
	}
	c.Flags().StringVar(&l.datapath, "datapath", live.Interpreter, "let the live world's switches forward in `WHERE`: interpreter, kernel or tofino-model, "+
		"as ethereal switch --datapath has it")
	// The only error is of a flag that does not exist.
	_ = c.RegisterFlagCompletionFunc("datapath", cobra.FixedCompletions(live.Datapaths(),
		cobra.ShellCompDirectiveNoFileComp))
}

// selected returns the kind of switches that the flags select.
func (l *liveSwitches) selected() (live.Switches, error) {
	s := live.Switches{Datapath: l.datapath}
	if err := live.CheckDatapath(l.datapath); err != nil {
		return s, fmt.Errorf("--datapath: %w", err)
	}
	for _, k := range kinds.Starters() {
		how, value := k.Start(), l.flagValues[k]
		switch {
		case value == nil || *value == "":
			continue
		case l.datapath != live.Interpreter:
			return s, fmt.Errorf("--%s: not with --datapath %s, which has our program alone", k.Name(), l.datapath)
		case s.Kind != nil:
			return s, fmt.Errorf("--%s and --%s exclude each other", k.Name(), s.Kind.Name())
		}
		var err error
		s.Kind = k
		if how.Binary {
			s.Binary, err = exec.LookPath(*value)
		} else {
			s.Program, err = readProgram(*value, how.Value)
		}
		if err != nil {
			return s, fmt.Errorf("--%s: %w", k.Name(), err)
		}
	}
	return s, nil
}

// readProgram reads what a flag says of a P4 program; form is how it is written.
func readProgram(value, form string) (p live.Program, err error) {
	var ok bool
	if p.P4Info, p.JSON, ok = strings.Cut(value, ","); !ok {
		return p, fmt.Errorf("%q is not %s; p4c writes both, with --p4runtime-files FILE.txtpb -o FILE.json", value, form)
	}
	for _, f := range []*string{&p.P4Info, &p.JSON} {
		if _, err := os.Stat(*f); err != nil {
			return p, err
		}
		if *f, err = filepath.Abs(*f); err != nil {
			return p, err
		}
	}
	return p, nil
}

// enterLive has this program run in namespaces of its own, and returns how that ended. view is where the page of the
// fabric is served; empty: nowhere.
func enterLive(ctx context.Context, view string) error {
	var page *os.File
	if view != "" {
		var err error
		if page, err = live.ListenPage(view); err != nil {
			return fmt.Errorf("--listen-view: %w", err)
		}
		defer page.Close() //nolint:errcheck // it was only passed on
	}
	code, err := live.Enter(ctx, os.Args[1:], page)
	if err != nil {
		return failedf("%w", err)
	}
	return programExitCode(code)
}

// livePage returns the fabric's page, inside those namespaces, and prints its address; nil if none was requested.
func (a *app) livePage(dir, view string) (*live.Page, error) {
	if view == "" {
		return nil, nil
	}
	page, err := live.PassedPage(dir)
	if err != nil {
		return nil, failedf("--listen-view: %w", err)
	}
	fmt.Fprintf(a.stderr, "the fabric's page, once its controller runs: %s\n", page.URL)
	return page, nil
}

// enterWorld returns what carries out runs in the world that the flags name, and
// what to call when all are done. For the live world the program starts itself
// again, in namespaces of its own; the error is then how that ended.
func (a *app) enterWorld(ctx context.Context, flags *runFlags) (run runner.Run, done func(), err error) {
	switches, err := flags.selected()
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
			return nil, nil, enterLive(ctx, flags.view.listenAddr())
		}
		page, err := a.livePage(dir, flags.view.listenAddr())
		if err != nil {
			return nil, nil, err
		}
		flags.parallel = 1
		w := runner.NewLive(live.Base{Dir: dir, Page: page, Switches: switches, Log: a.log})
		return w.Run, w.Close, nil
	case scenario.WorldMininet, scenario.WorldLab:
		if flags.deployment == "" {
			return nil, nil, fmt.Errorf("--world %s takes --deployment FILE; ethereal mininet run writes one", flags.world)
		}
		d, err := deployment.Load(flags.deployment)
		if err != nil {
			return nil, nil, err
		}
		w, err := runner.Attach(ctx, d, nil)
		if err != nil {
			return nil, nil, failedf("%w", err)
		}
		flags.parallel = 1
		return w.Run, func() { w.Close() }, nil //nolint:errcheck // nothing is left to say
	}
	return nil, nil, fmt.Errorf("--world: %q is unknown; write one of %s", flags.world, strings.Join(scenario.WorldNames(), ", "))
}
