package main

import "github.com/spf13/cobra"

func (a *app) exportCommand() *cobra.Command {
	c := &cobra.Command{Use: "export", Short: "Write a fabric in the form of other programs"}
	c.AddCommand(a.exportContainerlabCommand())
	c.AddCommand(a.exportStaticCommands()...)
	return c
}
