// Package checklist is the result of preflight checks: per checked item a light, the observation, and a remedy.
package checklist

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
)

// Light is the result of a check as a traffic light: green, yellow, red, or unseen for what could not be checked.
type Light uint8

// The lights, from good to bad.
const (
	Green  Light = iota // the check passed
	Unseen              // could not be checked from here: look for yourself
	Yellow              // works, but not as well or not for long
	Red                 // the check failed: the system will not work
)

var lightNames = [...]string{"green", "unseen", "yellow", "red"}

func (l Light) String() string { return lightNames[l] }

// MarshalText prints the light's name.
func (l Light) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads what MarshalText prints.
func (l *Light) UnmarshalText(text []byte) error {
	i := slices.Index(lightNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("checklist: %q is no light; lights are %s", text, strings.Join(lightNames[:], ", "))
	}
	*l = Light(i)
	return nil
}

// Line is the result of one check.
type Line struct {
	Light   Light  `json:"light"`
	Subject string `json:"subject"` // what was checked, such as tor0, h3 or fabric
	Check   string `json:"check"`   // checked property, such as p4runtime or ports
	Seen    string `json:"seen"`
	Remedy  string `json:"remedy,omitempty"` // what the user should do; empty if the light is green
}

// List collects lines. It is safe for concurrent use.
type List struct {
	mu    sync.Mutex
	lines []Line
}

// Add adds a line. The remedy of a green line is left out.
func (l *List) Add(light Light, subject, check, seen, remedy string) {
	if light == Green {
		remedy = ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, Line{light, subject, check, seen, remedy})
}

// Lines returns all lines: by subject in the given order, other subjects behind, and per subject in the order of
// adding.
func (l *List) Lines(order []string) []Line {
	l.mu.Lock()
	defer l.mu.Unlock()
	place := func(x Line) int {
		if i := slices.Index(order, x.Subject); i >= 0 {
			return i
		}
		return len(order)
	}
	out := slices.Clone(l.lines)
	slices.SortStableFunc(out, func(a, b Line) int { return place(a) - place(b) })
	return out
}

// Worst returns the worst light among lines.
func Worst(lines []Line) Light {
	worst := Green
	for _, x := range lines {
		worst = max(worst, x.Light)
	}
	return worst
}

// Print writes lines for display, the worst first. Lines that differ only in their subject are merged. Green lines
// are only counted, unless all is set.
func Print(w io.Writer, lines []Line, all bool) error {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	count := [len(lightNames)]int{}
	subjects := map[Line][]string{} // by the line without its subject
	var shown []Line
	for _, x := range lines {
		count[x.Light]++
		if x.Light == Green && !all {
			continue
		}
		same := x
		same.Subject = ""
		if subjects[same] == nil {
			shown = append(shown, same)
		}
		subjects[same] = append(subjects[same], x.Subject)
	}
	slices.SortStableFunc(shown, func(a, b Line) int { return int(b.Light) - int(a.Light) })
	for _, x := range shown {
		fmt.Fprintf(tab, "%s\t%s\t%s\t%s\n", x.Light, joinSubjects(subjects[x]), x.Check, x.Seen)
		if x.Remedy != "" {
			fmt.Fprintf(tab, "\t\t\t-> %s\n", x.Remedy)
		}
	}
	if err := tab.Flush(); err != nil {
		return err
	}
	var parts []string
	for i, n := range count {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, lightNames[i]))
		}
	}
	_, err := fmt.Fprintln(w, strings.Join(parts, ", "))
	return err
}

// maxNamed is the number of subjects that a merged line names.
const maxNamed = 3

func joinSubjects(subjects []string) string {
	if more := len(subjects) - maxNamed; more > 1 {
		return strings.Join(subjects[:maxNamed], " ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(subjects, " ")
}
