package main

import "github.com/spf13/cobra"

// newHostCommand makes `ethereal host`.
func newHostCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "host",
		Short: "Commands for a host: its agent, a software RDMA device, checks",
		Long: `Commands that run on the hosts of a fabric. An agent chooses the paths of its host's RoCEv2 traffic, follows controllers,
and leaves paths that fail.`,
	}
	c.AddCommand(newHostagentCommand(), newTagCommand(), newNICCommand(), newPreflightHostCommand())
	return c
}
