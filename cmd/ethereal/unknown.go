package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ethereal-fabric/ethereal/internal/strictyaml"
)

// checkCommand looks at the words before the first flag: it refuses names that no command of a group has.
func checkCommand(root *cobra.Command, args []string) error {
	at := root
	if len(args) > 0 && args[0] == "help" { // of the command that is named, which it would print usage without
		args = args[1:]
	}
	for _, word := range args {
		if strings.HasPrefix(word, "-") || strings.HasPrefix(word, cobra.ShellCompRequestCmd) || word == "help" || word == "completion" {
			return nil // cobra's own
		}
		next, _, err := at.Find([]string{word})
		switch {
		case err == nil && next != at:
			at = next
		case at.Runnable():
			return nil // its own argument
		default:
			names := commandNames(at)
			hint := "one of " + strings.Join(names, ", ")
			if near := strictyaml.Nearest(word, names); near != "" {
				hint = fmt.Sprintf("did you mean %s %s?", at.CommandPath(), near)
			}
			return fmt.Errorf("%s has no command %q; %s", at.CommandPath(), word, hint)
		}
	}
	return nil
}

// commandNames returns the names of a command's commands.
func commandNames(c *cobra.Command) (names []string) {
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return names
}

// flagError says of a flag that a command does not have what was meant.
func flagError(c *cobra.Command, err error) error {
	command := strings.TrimPrefix(c.CommandPath(), "ethereal ")
	see := "see " + c.CommandPath() + " --help"
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return fmt.Errorf("%s: %w; %s", command, err, see)
	}
	name := "--" + unknown.GetSpecifiedName()
	if shorts := unknown.GetSpecifiedShortnames(); shorts != "" {
		name = "-" + unknown.GetSpecifiedName()
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if near := strictyaml.Nearest(strings.TrimLeft(name, "-"), names); near != "" && strings.HasPrefix(name, "--") {
		return fmt.Errorf("%s has no flag %s; did you mean --%s?", command, name, near)
	}
	return fmt.Errorf("%s has no flag %s; %s", command, name, see)
}
