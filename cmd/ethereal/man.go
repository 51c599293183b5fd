package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// manCommand writes the manual pages of all commands. Packages have them; nobody else needs the command.
func (a *app) manCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write the manual pages of all commands into a folder that exists",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			version, _, _ := strings.Cut(a.version, " ")
			if err := writeManual(c.Root(), args[0], version); err != nil {
				return fmt.Errorf("man: %w", err)
			}
			return nil
		},
	}
}

// roff protects what troff would read as its own: backslashes, hyphens, and dots and quotes at the begin of a line.
var roff = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n.", "\n\\&.", "\n'", "\n\\&'")

// writeManual writes a command's page and those of the commands below it, for roff's man macros.
func writeManual(c *cobra.Command, dir, version string) error {
	c.InitDefaultHelpCmd()
	c.InitDefaultHelpFlag()
	var b bytes.Buffer
	page := func(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }
	section := func(name, text string) {
		if text = strings.TrimRight(text, "\n"); text != "" { // the text has its lines already
			fmt.Fprintf(&b, ".SH %s\n.nf\n%s\n.fi\n", name, strings.TrimPrefix(roff.Replace("\n"+text), "\n"))
		}
	}
	fmt.Fprintf(&b, ".TH %q 1 \"\" %q \"Ethereal\"\n.SH NAME\n%s \\- %s\n",
		strings.ToUpper(page(c)), "ethereal "+version, roff.Replace(page(c)), roff.Replace(c.Short))
	section("SYNOPSIS", c.UseLine())
	section("DESCRIPTION", c.Long)
	section("OPTIONS", c.NonInheritedFlags().FlagUsages())
	section("OPTIONS OF ALL COMMANDS", c.InheritedFlags().FlagUsages())
	section("EXAMPLES", c.Example)
	var also []string
	if c.HasParent() {
		also = append(also, page(c.Parent())+"(1)")
	}
	for _, below := range c.Commands() {
		if !below.IsAvailableCommand() || below.IsAdditionalHelpTopicCommand() {
			continue
		}
		also = append(also, page(below)+"(1)")
		if err := writeManual(below, dir, version); err != nil {
			return err
		}
	}
	section("SEE ALSO", strings.Join(also, ", "))
	return os.WriteFile(filepath.Join(dir, page(c)+".1"), b.Bytes(), 0o644)
}
