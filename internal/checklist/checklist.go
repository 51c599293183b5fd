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

// Light is the state of a checked item.
type Light uint8

// The lights, from good to bad.
const (
	Green  Light = iota // as it should be
	Unseen              // cannot be seen from here: look for yourself
	Yellow              // works, but not as well or not for long
	Red                 // does not work
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

// Line is the result for one item.
type Line struct {
	Light   Light  `json:"light"`
	Subject string `json:"subject"` // tor0, h3, fabric
	Check   string `json:"check"`   // checked property: p4runtime, ports
	Seen    string `json:"seen"`
	Remedy  string `json:"remedy,omitempty"` // what to do, unless green
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
		fmt.Fprintf(tab, "%s\t%s\t%s\t%s\n", x.Light, several(subjects[x]), x.Check, x.Seen)
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

// named is the number of subjects that a merged line names.
const named = 3

func several(subjects []string) string {
	if more := len(subjects) - named; more > 1 {
		return strings.Join(subjects[:named], " ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(subjects, " ")
}
