//go:build linux

package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ethereal-fabric/ethereal/testbed/worlds/live"
)

// liveUpCommand makes `ethereal live up`.
func (a *app) liveUpCommand() *cobra.Command {
	var flags liveFlags
	var view string
	c := &cobra.Command{
		Use:   "up",
		Short: "Keep a fabric of processes until live down, or Ctrl-C",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			f, err := flags.read()
			if err != nil {
				return err
			}
			return inSandbox(c.Context(), view, func(dir string) error {
				page, err := a.livePage(dir, view)
				if err != nil {
					return err
				}
				return live.Up(c.Context(), f, dir, flags.payload, page, func() {
					fmt.Fprintf(a.stdout, "%d hosts and %d switches are up; sockets and logs are in %s\n", f.Hosts(), f.Switches(), dir)
				})
			})
		},
	}
	flags.register(c, "100Mb/s")
	viewFlag(c, &view)
	return c
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
			code, err := live.Exec(args[0], command)
			if err != nil {
				return fmt.Errorf("%w: %w", errRun, err)
			}
			if code != 0 {
				return endedWith(code)
			}
			return nil
		},
	}
	// What follows the host's name is the command's, flags and all, with -- or
	// without.
	c.Flags().SetInterspersed(false)
	return c
}

// liveDownCommand makes `ethereal live down`.
func liveDownCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Take down the fabric that is up",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := live.Down(); err != nil {
				return fmt.Errorf("%w: %w", errRun, err)
			}
			return nil
		},
	}
}
