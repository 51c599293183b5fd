package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ethereal-fabric/ethereal/internal/strictyaml"
)

// rename is a command or flag of earlier versions. It is refused with what to write today.
type rename struct {
	commands string // without ethereal, with commas between several
	flag     string // --NAME or -X; empty: the command itself
	now      string
}

// renames is the one table of old names. CHANGELOG.md has it too.
func renames() []rename {
	return []rename{
		{"hostagent", "", "ethereal host agent"},
		{"tag", "", "ethereal host tag"},
		{"nic", "", "ethereal host nic"},
		{"preflight host", "", "ethereal host preflight"},
		{"experiment", "", "ethereal run"},
		{"live soak", "", "ethereal run --world live mininet/experiments/soak.yaml"},

		{"run", "--json", "--out FILE; -o json prints on standard output"},
		{"run", "--report", "--html FILE"},
		{"run", "--seed", "--seeds SEEDS"},
		{"bench, bench merge, trace", "-o", "--out FILE"},
		{"status, preflight, host preflight, live react", "--json", "-o json"},
		{"topo, topo check", "--format", "-o FORMAT"},
		{"switch test", "--json", "--program FILE"},

		{"status, drain, preflight, topo check", "--controller", "--admin ADDR"},
		{"controller", "--agents", "--listen-agents ADDR"},
		{"controller, host agent, host tag, host nic, switch", "--admin", "--listen-admin ADDR"},
		{"controller", "--view", "--listen-view ADDR"},
		{"view", "--listen", "--listen-view ADDR"},
		{"host agent, host nic", "--control", "--listen-socket unix:PATH"},
		{"host agent", "--owners", "--listen-owners unix:PATH"},
		{"host agent, host nic", "--verbs", "--listen-verbs unix:PATH"},
		{"gnmi", "--addr", "--listen-gnmi ADDR"},
		{"gnmi", "--interface", "-i PORT@IFACE, or --port"},
		{"probe", "--control", "--socket unix:PATH"},
		{"probe", "--host", "--from HOST"},

		{"topo", "--cores", "--core-switches N"},
		{"validate", "--kind", "--as KIND"},
		{"await", "--limit", "--timeout DURATION"},
		{"live up", "--program", "--remote-program COMMAND"},
		{"export containerlab", "--hosts", "left out: the number of --address decides"},
	}
}

// renamed returns what a command's flag, or with "" the command, is called today.
func renamed(command, flag string) (now string, ok bool) {
	for _, r := range renames() {
		if r.flag == flag && slices.Contains(strings.Split(r.commands, ", "), command) {
			return r.now, true
		}
	}
	return "", false
}

// checkCommand looks at the words before the first flag: it refuses old names of commands, and names that no command of a
// group has.
func checkCommand(root *cobra.Command, args []string) error {
	at, path := root, ""
	if len(args) > 0 && args[0] == "help" { // of the command that is named, which it would print usage without
		args = args[1:]
	}
	for _, word := range args {
		if strings.HasPrefix(word, "-") || strings.HasPrefix(word, cobra.ShellCompRequestCmd) || word == "help" || word == "completion" {
			return nil // cobra's own
		}
		path = strings.TrimSpace(path + " " + word)
		if now, ok := renamed(path, ""); ok {
			return fmt.Errorf("ethereal %s is now %s", path, now)
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
	if now, ok := renamed(command, name); ok {
		return fmt.Errorf("%s: %s is now %s", command, name, now)
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
