package main

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/spf13/cobra"
)

// awaitCommand waits for interfaces that are made after the container that it runs in.
func (a *app) awaitCommand() *cobra.Command {
	var timeout time.Duration
	c := &cobra.Command{
		Hidden:  true, // what containers start with
		Use:     "await INTERFACE... -- COMMAND...",
		Short:   "Run a command of this program once network interfaces are up",
		Example: "  ethereal await eth1 eth2 -- version",
		Args:    cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			dash := c.ArgsLenAtDash()
			if dash < 1 || dash == len(args) {
				return errors.New("await: write interfaces, -- and a command, as in ethereal await eth1 -- version")
			}
			if err := awaitFabric(c.Context(), args[:dash], timeout); err != nil {
				return err
			}
			root := a.rootCommand()
			root.SetArgs(args[dash:])
			root.SetOut(a.stdout)
			root.SetErr(a.stderr)
			return root.ExecuteContext(c.Context())
		},
	}
	c.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "wait for `DURATION` at most; then fail")
	return c
}

func awaitFabric(ctx context.Context, names []string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for _, name := range names {
		for {
			i, err := net.InterfaceByName(name)
			if err == nil && i.Flags&net.FlagUp != 0 {
				break
			}
			select {
			case <-ctx.Done():
				return failedf("await: %s is not there or not up: %w", name, ctx.Err())
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
	return nil
}
