package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ethereal-fabric/ethereal/internal/printable"
	"github.com/ethereal-fabric/ethereal/internal/strictyaml"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/runner"
)

// app is the state that all commands share: output streams, version, environment. main or a test makes one.
type app struct {
	stdout, stderr io.Writer
	run            runner.Run // in virtual time; from several goroutines at once
	version        string
	command        string                           // line that was given
	free           func() (bytes int64, known bool) // memory for runs; nil: unknown
	live           bool                             // stderr is a terminal: redraw a progress line
	log            *slog.Logger
}

// Exit codes.
const (
	exitOK    = 0
	exitRun   = 1
	exitInput = 2
)

// execute runs the command line and returns the exit code.
func (a *app) execute(ctx context.Context, args []string) int {
	a.log = slog.New(slog.DiscardHandler)
	a.command = "ethereal " + strings.Join(args, " ")
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	err := checkCommand(root, args)
	if err == nil {
		err = root.ExecuteContext(ctx)
	}
	var ended programExitCode
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &ended):
		return int(ended)
	case errors.Is(err, strictyaml.ErrContent): // says file, line, key and remedy itself
		fmt.Fprintln(a.stderr, errorText(err))
		return exitInput
	case errors.Is(err, errRun), errors.Is(err, errInterrupted):
		fmt.Fprintf(a.stderr, "ethereal: %s\n", errorText(err))
		return exitRun
	}
	fmt.Fprintf(a.stderr, "ethereal: %s\n", errorText(err))
	return exitInput
}

// What is printed of an error at most: it may have a line for each of thousands of runs, or a name from a hostile file.
const (
	errorLines = 100
	errorWidth = 2000 // maximum length in bytes of a printed error line
)

// errorText is an error as people read it.
func errorText(err error) string {
	lines := strings.Split(printable.Text(err.Error()), "\n")
	if more := len(lines) - errorLines; more > 0 {
		lines = append(lines[:errorLines], fmt.Sprintf("and %d lines more", more))
	}
	for i, l := range lines {
		if more := len(l) - errorWidth; more > 0 {
			lines[i] = fmt.Sprintf("%s... (%d bytes more)", strings.ToValidUTF8(l[:errorWidth], ""), more)
		}
	}
	return strings.Join(lines, "\n")
}

func (a *app) rootCommand() *cobra.Command {
	var verbose int
	root := &cobra.Command{
		Use:   "ethereal",
		Short: "Collectives on P4 fabrics whose hosts choose the paths",
		Long: "ethereal compares load balancers on Clos fabrics of P4 switches, healthy and while links fail: in virtual time, on this\n" +
			"machine, in Mininet. It is also the controller, the host agent and a P4 switch of a real fabric.",
		Version:       a.version,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRun: func(*cobra.Command, []string) {
			if verbose > 0 {
				l := logFlag{level: slog.LevelInfo}
				if verbose > 1 {
					l.level = slog.LevelDebug
				}
				a.log = l.logger(a.stderr)
			}
		},
	}
	root.SetVersionTemplate("ethereal {{.Version}}\n")
	root.PersistentFlags().CountVarP(&verbose, "verbose", "v", "log to standard error; twice for more")
	root.SetFlagErrorFunc(flagError)
	root.CompletionOptions.HiddenDefaultCmd = true
	for _, g := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Simulate:", []*cobra.Command{a.runCommand(), a.benchCommand(), a.reportCommand(), a.diagnoseCommand(), a.viewCommand(), a.casesCommand()}},
		{"Live and Mininet:", []*cobra.Command{a.liveCommand(), mininetCommand()}},
		{"Operate:", []*cobra.Command{
			newControllerCommand(), newStatusCommand(), newVerifyCommand(), newDrainCommand(), newPreflightCommand(), newProbeCommand(), newP4RTCommand(),
		}},
		{"Switch and hosts:", []*cobra.Command{newSwitchCommand(), newGNMICommand(), newHostCommand()}},
		{"Files:", []*cobra.Command{a.initCommand(), a.validateCommand(), a.topoCommand(), a.importCommand(), a.exportCommand()}},
	} {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, c := range g.commands {
			c.GroupID = g.title
			root.AddCommand(c)
		}
	}
	root.AddCommand(a.traceCommand(), a.awaitCommand(), a.versionCommand(), a.manCommand())
	return root
}

// provenance is version, and the hash of the program's own file where the
// two builds can have the same version.
func provenance(version string) string {
	if !strings.HasPrefix(version, "devel go") && !strings.Contains(version, "modified") {
		return version
	}
	path, err := os.Executable()
	if err != nil {
		return version
	}
	file, err := os.Open(path)
	if err != nil {
		return version
	}
	defer func() { _ = file.Close() }() // it was only read
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return version
	}
	return version + " sha256:" + hex.EncodeToString(h.Sum(nil))[:12]
}

// thisMachine returns the machine and task that this program runs on: the node's name as Slurm has it, or as the
// Kubernetes manifest sets ETHEREAL_HOST.
func thisMachine() *report.Machine {
	host := cmp.Or(os.Getenv("ETHEREAL_HOST"), os.Getenv("SLURMD_NODENAME"))
	if host == "" {
		host, _ = os.Hostname() // "" then
	}
	return &report.Machine{Host: host, Cores: runtime.GOMAXPROCS(0), System: runtime.GOOS + "/" + runtime.GOARCH}
}
