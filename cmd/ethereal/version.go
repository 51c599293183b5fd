package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

// versionCommand returns the command that prints the version of this build.
func (a *app) versionCommand() *cobra.Command {
	var format outputFormat
	c := &cobra.Command{
		Use:   "version",
		Short: "Print which build this is",
		Long: "version prints what `ethereal --version` does: the release's tag, or the commit and whether its files were changed, and\n" +
			"the Go that compiled it. With -o json also the program's own hash where two builds can have the same version.",
		Example: "  ethereal version -o json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if format.forPeople() {
				_, err := fmt.Fprintf(a.stdout, "ethereal %s %s/%s\n", a.version, runtime.GOOS, runtime.GOARCH)
				return err
			}
			return format.write(a.stdout, map[string]string{
				"version": a.version, "build": provenance(a.version), "os": runtime.GOOS, "arch": runtime.GOARCH,
			})
		},
	}
	format.register(c)
	return c
}
