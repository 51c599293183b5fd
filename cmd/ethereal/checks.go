package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/ethereal-fabric/ethereal/internal/checklist"
)

// checkFlags are the flags that select how check results are printed and from which severity on the command fails.
type checkFlags struct {
	format      outputFormat
	all, strict bool
}

func (p *checkFlags) register(c *cobra.Command) {
	f := c.Flags()
	p.format.register(c)
	f.BoolVar(&p.all, "all", false, "print green lines too")
	f.BoolVar(&p.strict, "strict", false, "exit with 1 for more; here: for yellow lines too")
}

// errPreflight is how a check ends that found something.
var errPreflight = failedf("not ready")

// printLines prints lines, and returns an error if they are not good enough.
func (p *checkFlags) printLines(w io.Writer, lines []checklist.Line) error {
	var err error
	if p.format.forPeople() {
		err = checklist.Print(w, lines, p.all)
	} else {
		err = p.format.write(w, lines)
	}
	if err != nil {
		return failedf("%w", err)
	}
	if worst := checklist.Worst(lines); worst == checklist.Red || p.strict && worst == checklist.Yellow {
		return errPreflight
	}
	return nil
}
