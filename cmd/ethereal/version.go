package main

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// versionCommand says which build this is.
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
			if format.people() {
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

// manCommand writes the manual pages of all commands. Packages have them; nobody else needs the command.
func (a *app) manCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write the manual pages of all commands into a folder that exists",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			root := c.Root()
			root.DisableAutoGenTag = true // the same build writes the same pages
			version, _, _ := strings.Cut(a.version, " ")
			err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "ethereal " + version, Manual: "Ethereal"}, args[0])
			if err != nil {
				return fmt.Errorf("man: %w", err)
			}
			return nil
		},
	}
}
