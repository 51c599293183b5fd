// Command ethereal runs experiments on Clos fabrics of P4 switches: what
// happens to collectives when hosts choose the paths, and when links fail.
//
//	ethereal run SCENARIO    runs a scenario; shows a table, writes a report
//	ethereal topo            prints a fabric as YAML, JSON or Graphviz
//	ethereal switch          is a P4 switch on Linux interfaces; also under the
//	                         name of simple_switch_grpc
//	ethereal controller      programs P4Runtime switches and follows their links;
//	                         verify, status and drain ask it or the switches
//	ethereal gnmi            serves gNMI beside a switch that does not
//
// It exits with 0 when all runs ran (a collective that does not finish within
// the scenario's deadline is a result, not a failure), with 1 when a run failed
// or was interrupted or a result could not be written, and with 2 on bad input.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ethereal-fabric/ethereal/internal/buildinfo"
	"github.com/ethereal-fabric/ethereal/internal/memory"
	"github.com/ethereal-fabric/ethereal/internal/printable"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/virtual"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// Once interrupted, the next signal ends the program at once.
	context.AfterFunc(ctx, stop)
	cobra.EnableCommandSorting = false // the order in groups is that of use
	a := &app{
		stdout: os.Stdout, stderr: os.Stderr, run: virtual.Runner(), version: buildinfo.Version(), live: isTerminal(os.Stderr), free: memory.Free,
	}
	if isTerminal(os.Stdout) { // switches' and agents' names and errors are on it
		a.stdout = printable.Writer(os.Stdout)
	}
	args := os.Args[1:]
	if switchArgs, ok := switchInvocation(os.Args); ok {
		args = switchArgs
	}
	os.Exit(a.execute(ctx, args))
}

// isTerminal reports whether f is a terminal that can redraw a line.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 || os.Getenv("TERM") == "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
