//go:build !linux

package main

import (
	"github.com/spf13/cobra"

	"github.com/ethereal-fabric/ethereal/testbed/worlds/live"
)

// liveCommand says what `ethereal live` takes.
func (*app) liveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "live",
		Short: "Build a fabric of processes on this machine; on Linux only",
		RunE:  func(*cobra.Command, []string) error { return live.ErrLinux },
	}
}
