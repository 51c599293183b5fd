package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ethereal-fabric/ethereal/testbed/report"
)

// reportFlags are the flags of `ethereal report`.
type reportFlags struct {
	html, csv, steps, svg string
	only, title           string
	quiet                 bool
	format                outputFormat
}

func (a *app) reportCommand() *cobra.Command {
	var flags reportFlags
	c := &cobra.Command{
		Use:   "report FILE...",
		Short: "Show results as tables and pictures",
		Long: `Reads results of "ethereal bench" and "ethereal run" from any number of files, and prints one table of them. With --html it
also writes a self-contained page, with --svg a file per picture. If a run occurs more than once, the last result counts.
Two files that have runs in common are compared: it prints what changed from the first file to the second.`,
		Example: `  ethereal report demo.jsonl
  ethereal report before.jsonl after.jsonl
  ethereal report a.jsonl b.jsonl --html report.html
  ethereal report a.jsonl --only 'halving.*healthy' --svg pictures`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("report takes at least one file of results; ethereal bench and ethereal run write them")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return a.runReport(c.Context(), args, flags) },
	}
	f := c.Flags()
	f.StringVar(&flags.html, "html", "", "write the page, one self-contained file, to `FILE`")
	f.StringVar(&flags.svg, "svg", "", "write each picture as a file into `DIR`")
	f.StringVar(&flags.csv, "csv", "", "write a line per result to `FILE`")
	f.StringVar(&flags.steps, "steps", "", "write the times of workloads' steps to `FILE`, as CSV")
	f.StringVar(&flags.only, "only", "", "select runs that match `REGEXP`; it is compared with scenario, failure, collective, size, notifier, scheme, seed and the varied keys")
	f.StringVar(&flags.title, "title", "", "give the page the title `TEXT` (default: the names of what it shows)")
	f.BoolVarP(&flags.quiet, "quiet", "q", false, "print less; no table")
	flags.format.register(c, formatTable, formatCSV)
	return c
}

func (a *app) runReport(ctx context.Context, paths []string, flags reportFlags) (err error) {
	only, err := regexp.Compile(flags.only)
	if err != nil {
		return fmt.Errorf("--only: %w; write a regular expression, as in 'ecmp.*seed 1'", err)
	}
	var rs []*report.Result
	var files [][]*report.Result
	for _, path := range paths {
		some, err := readResults([]string{path})
		if err != nil {
			return err
		}
		some = slices.DeleteFunc(some, func(r *report.Result) bool { return !only.MatchString(r.String()) })
		files, rs = append(files, some), append(rs, some...)
	}
	rs = report.Distinct(rs)
	if len(rs) == 0 {
		return fmt.Errorf("--only: no result of %d files matches", len(paths))
	}
	write := func(flag, path string, what func(io.Writer) error) (err error) {
		file, err := createOutput(ctx, flag, path)
		if err != nil {
			return err
		}
		defer closeFile(file, &err)
		if err = what(file); err != nil {
			file.Fail(err)
		}
		return err
	}
	if flags.csv == "-" {
		return errors.New("--csv: - is no file; -o csv prints on standard output")
	}
	if flags.csv != "" {
		err = write("--csv", flags.csv, func(w io.Writer) error { return report.CSV(w, rs) })
	}
	if err == nil && flags.steps != "" {
		err = write("--steps", flags.steps, func(w io.Writer) error { return report.StepsCSV(w, rs) })
	}
	if err == nil && !flags.format.forPeople() {
		err = report.CSV(a.stdout, rs)
	}
	if err == nil && !flags.quiet && flags.format.forPeople() {
		compared := false
		if len(files) == 2 {
			compared, err = report.Compare(a.stdout, files[0], files[1], [2]string(paths))
		}
		if err == nil && !compared {
			err = report.Summary(a.stdout, rs)
		}
	}
	if err == nil && flags.html != "" {
		err = write("--html", flags.html, func(w io.Writer) error {
			return report.HTML(w, rs, report.Page{Title: flags.title, Version: a.version, Charts: true, Looks: resultViewHints(paths...)})
		})
		if err == nil && !flags.quiet {
			fmt.Fprintf(a.stderr, "report: %s\n", flags.html)
		}
	}
	if err != nil || flags.svg == "" {
		return err
	}
	if err := os.MkdirAll(flags.svg, 0o777); err != nil {
		return openError("--svg", err)
	}
	for _, c := range report.Charts(rs) {
		path := filepath.Join(flags.svg, c.Name+".svg")
		if err := write("--svg", path, func(w io.Writer) error { _, err := io.WriteString(w, c.SVG()); return err }); err != nil {
			return err
		}
	}
	return nil
}

// readResults reads files of results.
func readResults(paths []string) ([]*report.Result, error) {
	var rs []*report.Result
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("%w; name a file that ethereal bench or ethereal run --out wrote", err)
		}
		some, err := report.Decode(file, path)
		if e := file.Close(); err == nil {
			err = e
		}
		if err != nil {
			return nil, err
		}
		rs = append(rs, some...)
	}
	return rs, nil
}
