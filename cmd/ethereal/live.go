package main

import "github.com/spf13/cobra"

// liveCommand makes `ethereal live`.
func (a *app) liveCommand() *cobra.Command {
	return &cobra.Command{Use: "live", Short: "Keep a live fabric for exploring", Hidden: true}
}
