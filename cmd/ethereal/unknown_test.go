package main

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// refusedLine runs a command line and returns what it is refused with.
func refusedLine(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	a := &app{stdout: &out, stderr: &out, version: "v"}
	if code := a.execute(t.Context(), args); code != exitInput {
		t.Errorf("%v: exit code %d: %s", args, code, out.String())
	}
	return out.String()
}

// TestDidYouMean: a name with a typing error is refused with the nearest.
func TestDidYouMean(t *testing.T) {
	for line, want := range map[string]string{
		"hsot":                    "did you mean ethereal host?",
		"host agnet --fabric x":   "did you mean ethereal host agent?",
		"live dwon":               "did you mean ethereal live down?",
		"xyzzy":                   "ethereal has no command \"xyzzy\"; one of bench, ",
		"status --admn x":         "did you mean --admin?",
		"switch --cpu-prot 1":     "did you mean --cpu-port?",
		"status -o tabel":         "did you mean table?",
		"help nonsense":           "ethereal has no command \"nonsense\"",
		"help live dwon":          "did you mean ethereal live down?",
		"run x.yaml -o out.jsonl": "write --out out.jsonl",
	} {
		if got := refusedLine(t, strings.Fields(line)...); !strings.Contains(got, want) {
			t.Errorf("ethereal %s: %s; want %q", line, got, want)
		}
	}
}

// flagUse is what one command says of a flag.
type flagUse struct{ Type, Placeholder, Meaning string }

// allFlags returns the uses of each flag of all commands: those of `ethereal switch` that BMv2 has are BMv2's.
func allFlags(root *cobra.Command) map[string]map[flagUse][]string {
	uses := map[string]map[flagUse][]string{}
	note := func(name, kind, placeholder, usage, command string) {
		// What follows is about the one command.
		meaning, _, _ := strings.Cut(usage, ";")
		meaning, _, _ = strings.Cut(meaning, " (")
		if uses[name] == nil {
			uses[name] = map[flagUse][]string{}
		}
		u := flagUse{strings.TrimSuffix(strings.TrimSuffix(kind, "Array"), "Slice"), placeholder, meaning}
		uses[name][u] = append(uses[name][u], command)
	}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			placeholder, usage := pflag.UnquoteUsage(f)
			if f.Value.Type() != "bool" && !strings.Contains(f.Usage, "`") {
				placeholder = "none"
			}
			note(f.Name, f.Value.Type(), placeholder, usage, c.CommandPath())
		})
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	for _, o := range etherealSwitchOptions() {
		kind := "" // that of the others
		for u := range uses[o.name] {
			kind = u.Type
		}
		if o.help != "" && uses[o.name] != nil && o.name != "datapath" && o.name != "p4info" {
			note(o.name, kind, o.value, strings.ReplaceAll(o.help, "\n", " "), "ethereal switch")
		}
	}
	delete(uses, "help")
	return uses
}

// TestFlagsMeanOneThing: flags of one name have one meaning, placeholder and type in all commands.
func TestFlagsMeanOneThing(t *testing.T) {
	placeholder := regexp.MustCompile(`^$|^[A-Z][A-Za-z0-9@=/,:.]*$|^unix:PATH$`)
	uses := allFlags((&app{}).rootCommand())
	if len(uses) < 100 {
		t.Fatalf("%d flags; are they still found?", len(uses))
	}
	for _, name := range slices.Sorted(maps.Keys(uses)) {
		if len(uses[name]) > 1 {
			var lines []string
			for u, commands := range uses[name] {
				lines = append(lines, fmt.Sprintf("\t%+v: %s", u, strings.Join(commands, ", ")))
			}
			t.Errorf("--%s:\n%s", name, strings.Join(lines, "\n"))
		}
		for u, commands := range uses[name] {
			want := map[string]string{"duration": "DURATION", "int": "N", "uint64": "N", "float64": "N", "uint": "N", "int32": "N"}[u.Type]
			if want != "" && u.Placeholder != want && u.Placeholder != "BYTES" && u.Placeholder != "PORT" || !placeholder.MatchString(u.Placeholder) ||
				strings.HasPrefix(name, "listen-") && u.Placeholder != "ADDR" && u.Placeholder != "unix:PATH" {
				t.Errorf("%s --%s: a %s is called %q", commands, name, u.Type, u.Placeholder)
			}
		}
	}
}
