//go:build linux

package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/printable"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/live"
)

// liveUpCommand makes `ethereal live up`.
func (a *app) liveUpCommand() *cobra.Command {
	var flags liveFlags
	var view viewFlags
	c := &cobra.Command{
		Use:     "up",
		Short:   "Start a fabric. It runs until live down, or Ctrl-C",
		Example: "  ethereal live up --k 4",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			f, err := flags.read()
			if err != nil {
				return err
			}
			return inSandbox(c.Context(), view.listenAddr(), func(dir string) error {
				page, err := a.livePage(dir, view.listenAddr())
				if err != nil {
					return err
				}
				base := live.Base{Dir: dir, Page: page, Switches: flags.switches, Lost: a.printLostProcess}
				return live.Up(c.Context(), f, base, flags.payload, func() {
					fmt.Fprint(a.stdout, fabricUpText(f, dir)) //nolint:errcheck // the fabric is up
				})
			})
		},
	}
	flags.register(c, "100Mb/s", false)
	view.register(c.Flags())
	return c
}

// printLostProcess prints that a process of the running fabric has ended.
func (a *app) printLostProcess(err error) {
	fmt.Fprintf(a.stderr, "ethereal: %s\nnothing starts it again; ethereal live down ends the fabric\n", printable.Text(err.Error())) //nolint:errcheck // live status says it, too
}

// fabricUpText returns the text that a fabric is up, with the commands to use now.
func fabricUpText(f *fabric.Fabric, dir string) string {
	tor := f.Node(f.ToRID(0))
	port, link := tor.FirstUplink(), f.LinkName(tor.Link(tor.FirstUplink()))
	inside := live.InterfaceName(f, fabric.End{Node: tor.ID, Port: port})
	var b strings.Builder
	fmt.Fprintf(&b, "%d hosts and %d switches are up; sockets and logs are in %s\n", f.Hosts(), f.Switches(), dir)
	fmt.Fprintf(&b, "In another terminal:\n")
	for _, line := range [][2]string{
		{"status", "switches, links and agents"},
		{"verify", "prove from the tables that every packet arrives"},
		{"preflight", "check all parts"},
		{"probe", "loss and round trip of every path"},
		{"drain " + link, "take a link out of use; --undo takes it back"},
		{"live exec h0 -- ping -c 3 " + f.HostAddr4(fabric.NodeID(f.Hosts()-1)).String(), "a program on a host"},
		{"live exec " + f.Name(tor.ID) + " -- ip link set " + inside + " down", "cut the link " + link + "; up repairs it"},
		{"live down", "stop the fabric, as Ctrl-C here"},
	} {
		fmt.Fprintf(&b, "  ethereal %-48s %s\n", line[0], line[1])
	}
	if live.VerbsLibrary() == "" {
		b.WriteString("Hosts have no RDMA device, because there is no libethereal-verbs.so: install the package libethereal-verbs, " +
			"or build the library by make verbs (Debian: libibverbs-dev); then start the fabric again.\n")
	}
	return b.String()
}

// liveExecCommand makes `ethereal live exec`.
func liveExecCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "exec HOST [--] COMMAND [ARGUMENT]...",
		Short:   "Run a command in a host of the fabric that is up",
		Example: "  ethereal live exec h0 -- ping -c 3 10.1.0.2",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			command := args[1:]
			if command[0] == "--" {
				command = command[1:]
			}
			if len(command) == 0 {
				return errors.New("live exec: name a command after the host")
			}
			return exitError(live.Exec(args[0], command))
		},
	}
	// What follows the host's name is the command's, flags and all, with -- or
	// without.
	c.Flags().SetInterspersed(false)
	return c
}

// liveShellCommand makes `ethereal live rsh`.
func liveShellCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "rsh HOST WORD...",
		Short: "Run a command line in a host's shell, as ssh does",
		Long: `Joins the arguments and runs them by a shell in the host's namespace. Programs that start others by ssh can use it
instead, for example Open MPI as its plm_rsh_agent.`,
		Example: "  mpirun --mca plm_rsh_agent \"ethereal live rsh\" -H h0,h1 PROGRAM",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			return exitError(live.Exec(args[0], []string{"sh", "-c", strings.Join(args[1:], " ")}))
		},
	}
	c.Flags().SetInterspersed(false)
	return c
}

// liveMPICommand makes `ethereal live mpirun`.
func liveMPICommand() *cobra.Command {
	var m live.MPI
	c := &cobra.Command{
		Use:   "mpirun [-n N] [--] PROGRAM [ARGUMENT]...",
		Short: "Run a program with Open MPI on the hosts of the fabric that is up",
		Long: `Runs a program with Open MPI, one process per host, by UCX over the hosts' RDMA devices (make verbs). Variables that begin
with OMPI_ or UCX_ are passed on to the processes.`,
		Example: "  ethereal live mpirun -n 16 ./a.out",
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(_ *cobra.Command, args []string) error { return exitError(m.Run(args)) },
	}
	c.Flags().SetInterspersed(false)
	c.Flags().IntVarP(&m.Ranks, "np", "n", 0, "start `N` processes, several per host if there are more than hosts (default one per host)")
	c.Flags().StringArrayVarP(&m.Env, "env", "x", nil, "pass `NAME` or NAME=VALUE on to the processes")
	return c
}

// liveStatusCommand makes `ethereal live status`.
func (a *app) liveStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show which processes of the fabric that is up are lost",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := live.StatusOf(c.Context())
			if err != nil {
				return failedf("%w", err)
			}
			fmt.Fprintf(a.stdout, "%d hosts and %d switches; sockets and logs are in %s\n", s.Hosts, s.Switches, s.Dir) //nolint:errcheck // the exit code says it
			for _, text := range s.Lost {
				fmt.Fprintln(a.stdout, printable.Text(text)) //nolint:errcheck // the exit code says it
			}
			if len(s.Lost) > 0 {
				return failedf("%d processes of the fabric have ended, and nothing starts them again; ethereal live down ends the fabric", len(s.Lost))
			}
			return nil
		},
	}
}

// liveDownCommand makes `ethereal live down`.
func liveDownCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Stop the fabric that is up",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := live.Down(c.Context(), c.ErrOrStderr()); err != nil {
				return failedf("%w", err)
			}
			return nil
		},
	}
}
