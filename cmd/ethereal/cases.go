package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/ethereal-fabric/ethereal/roce/transport"
	"github.com/ethereal-fabric/ethereal/testbed/cases"
)

// casesFlags are the flags of `ethereal cases`.
type casesFlags struct {
	seed         uint64
	first, count int
	class        []string
	fabric       string
	parallel     int
	limit        time.Duration
	out          string
	against      string
	keep         string
	alone        bool
	opponents    schemeList
	control      transport.Control
	enforce      bool
	dryRun       bool
	quiet        bool
}

func (a *app) casesCommand() *cobra.Command {
	var flags casesFlags
	c := &cobra.Command{
		Use:   "cases [FILE...]",
		Short: "Run random scenarios and check invariants; the same command continues it",
		Long: `Draws scenarios from a seed: fabrics, buffers, rate controls, collectives, failures. Each runs with
Ethereal, on the healthy fabric and with its failure, and with fair opponents. Prints by class of failure how close
Ethereal is to the lower bound and to the opponents, and which invariants are violated. The same seed and index give
the same case in every build, so --against compares two builds. With FILEs, cases that --keep or --dry-run wrote, it
draws none.

A case is one line of JSON. Cases that the file of --out already has are skipped.`,
		Example: `  ethereal cases --seed 3 --count 20 --out cases.jsonl
  ethereal cases --seed 3 --count 20 --class quench,gnmi --out new.jsonl --against cases.jsonl
  ethereal cases --seed 3 --first 17 --count 1 --dry-run`,
		RunE: func(c *cobra.Command, args []string) error { return a.cases(c.Context(), args, flags) },
	}
	f := c.Flags()
	f.Uint64Var(&flags.seed, "seed", 1, "seed of random choices, `N`")
	f.IntVar(&flags.first, "first", 0, "begin with case `N`, from 0")
	f.IntVar(&flags.count, "count", 100, "run `N` cases; with --class, of these classes")
	f.StringSliceVar(&flags.class, "class", nil,
		"run only `CLASSES`: healthy, quench, gnmi, late, nobody, flap, gray, degraded, other")
	f.StringVar(&flags.fabric, "fabric-kind", "", "draw fabrics of this `KIND`: dragonfly, or rails, with PXN (default: Clos fabrics)")
	f.IntVar(&flags.parallel, "parallel", runtime.GOMAXPROCS(0), "run `N` at a time")
	f.DurationVar(&flags.limit, "limit", 0, "begin no case after `DURATION`, as in 5m (default: none)")
	f.StringVar(&flags.out, "out", "",
		"write results to `FILE`; cases whose results it already has are skipped (default: to no file)")
	f.StringVar(&flags.against, "against", "",
		"compare with the outcomes in `FILE`, of another build, over the cases that both have")
	f.StringVar(&flags.keep, "keep", "",
		"write the scenario of each case that violates an invariant into the folder `DIR`")
	f.BoolVar(&flags.alone, "alone", false, "run Ethereal only, without opponents")
	f.Var(&flags.opponents, "opponents", "run these `SCHEMES` as opponents instead, as in srd,falcon (not with planes)")
	f.StringVar((*string)(&flags.control), "congestion-control", "",
		"let hosts use this rate `CONTROL` instead of the case's, as in csig")
	f.BoolVar(&flags.enforce, "enforce", false, "fail if a case violates an invariant that is not merely listed")
	f.BoolVar(&flags.dryRun, "dry-run", false, "only print what would be done; here: the scenarios")
	f.BoolVarP(&flags.quiet, "quiet", "q", false, "print less; no progress")
	_ = c.RegisterFlagCompletionFunc("class", cobra.FixedCompletions(classNames(), cobra.ShellCompDirectiveNoFileComp))
	return c
}

func classNames() []string {
	var out []string
	for _, c := range cases.Classes() {
		out = append(out, string(c))
	}
	return out
}

// maxCases is the largest index of a case.
const maxCases = 10_000_000

func (a *app) cases(ctx context.Context, files []string, flags casesFlags) error {
	if flags.first < 0 || flags.count < 1 || flags.first > maxCases || flags.count > maxCases {
		return fmt.Errorf("--first %d --count %d; write a first of 0 or more, and a count of 1 or more, to %d",
			flags.first, flags.count, maxCases)
	}
	if kinds := cases.Kinds(); flags.fabric != "" && !slices.Contains(kinds, flags.fabric) {
		return fmt.Errorf("--fabric-kind: %q is unknown; write %s, or leave it out", flags.fabric, strings.Join(kinds, " or "))
	}
	if flags.parallel < 1 {
		return fmt.Errorf("--parallel: %d; write 1 or more", flags.parallel)
	}
	for _, name := range flags.class {
		if !slices.Contains(classNames(), name) {
			return fmt.Errorf("--class: %q is unknown; choose of %v", name, classNames())
		}
	}
	all := drawnCases(flags)
	if len(files) > 0 {
		loaded, err := loadedCases(files)
		if err != nil {
			return err
		}
		all = slices.Values(loaded)
	}
	if flags.dryRun {
		for c := range all {
			fmt.Fprintln(a.stdout, c.Text+c.Jobs)
		}
		return nil
	}
	var against []*cases.Record
	if flags.against != "" {
		var err error
		if against, _, err = cases.Read(flags.against); err != nil {
			return fmt.Errorf("--against: %w", err)
		}
		if len(against) == 0 {
			return fmt.Errorf("--against: %s has no cases; name a file that ethereal cases has written", flags.against)
		}
	}
	rs, err := a.runCases(ctx, flags, all)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w; the same command runs the rest", errInterrupted)
	}
	if err := cases.Summary(a.stdout, rs, against); err != nil {
		return err
	}
	faulty := 0
	for _, r := range rs {
		if len(cases.Faults(cases.Violations(r))) > 0 {
			faulty++
		}
	}
	if flags.enforce && faulty > 0 {
		return failedf("%d of %d cases violate an invariant", faulty, len(rs))
	}
	return nil
}

// drawnCases draws the random cases that the flags select.
func drawnCases(flags casesFlags) iter.Seq[cases.Case] {
	draw := cases.Draw
	if flags.fabric != "" {
		draw = func(seed uint64, index int) cases.Case { return cases.DrawKind(flags.fabric, seed, index) }
	}
	return func(yield func(cases.Case) bool) {
		n := 0
		for i := flags.first; n < flags.count && i <= 2*maxCases; i++ {
			c := draw(flags.seed, i)
			if len(flags.class) > 0 && !slices.Contains(flags.class, string(c.Class)) {
				continue
			}
			if n++; !yield(c) {
				return
			}
		}
	}
}

func loadedCases(files []string) ([]cases.Case, error) {
	var out []cases.Case
	for _, path := range files {
		c, _, err := cases.Load(path)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// runCases executes the cases that the output file lacks, and returns the records of all requested cases.
func (a *app) runCases(ctx context.Context, flags casesFlags, all iter.Seq[cases.Case]) (
	rs []*cases.Record, err error,
) {
	have := map[string]*cases.Record{}
	var file *os.File
	if flags.out != "" {
		old, size, err := cases.Read(flags.out)
		if err != nil {
			return nil, fmt.Errorf("--out: %w", err)
		}
		for _, r := range old {
			have[r.Name] = r
		}
		if file, err = os.OpenFile(flags.out, os.O_CREATE|os.O_WRONLY, 0o644); err != nil {
			return nil, openError("--out", err)
		}
		defer closeFile(file, &err)
		if err := errors.Join(file.Truncate(size), seekTo(file, size)); err != nil {
			return nil, failedf("--out: %w", err)
		}
	}
	var mu sync.Mutex
	var workers errgroup.Group
	workers.SetLimit(flags.parallel)
	began, done := time.Now(), 0
	options := cases.Options{Run: a.run, Program: provenance(a.version), Alone: flags.alone, Opponents: flags.opponents,
		Control: flags.control}
	for c := range all {
		if old := have[c.Name]; old != nil {
			mu.Lock()
			rs = append(rs, old)
			mu.Unlock()
			continue
		}
		if ctx.Err() != nil || flags.limit > 0 && time.Since(began) > flags.limit {
			break
		}
		workers.Go(func() error {
			r, err := cases.Evaluate(ctx, c, options)
			if err != nil {
				return nil //nolint:nilerr // interrupted; the caller sees it in ctx
			}
			mu.Lock()
			defer mu.Unlock()
			done++
			rs = append(rs, r)
			if !flags.quiet {
				fmt.Fprintf(a.stderr, "%d: %s %v\n", done, r, r.Violated)
			}
			return a.keepCase(flags, c, r, file)
		})
	}
	err = workers.Wait()
	slices.SortFunc(rs, func(x, y *cases.Record) int { return x.Index - y.Index })
	return rs, err
}

func seekTo(file *os.File, at int64) error {
	_, err := file.Seek(at, 0)
	return err
}

// keepCase writes a record, and the scenario if it violates an invariant.
func (a *app) keepCase(flags casesFlags, c cases.Case, r *cases.Record, file *os.File) error {
	if file != nil {
		line, err := json.Marshal(r)
		if err == nil {
			_, err = file.Write(append(line, '\n'))
		}
		if err != nil {
			return failedf("--out: %w", err)
		}
	}
	if flags.keep == "" || len(cases.Faults(r.Violated)) == 0 {
		return nil
	}
	if err := os.MkdirAll(filepath.Clean(flags.keep), 0o755); err != nil {
		return failedf("--keep: %w", err)
	}
	if _, err := c.Write(flags.keep, r.Violated...); err != nil {
		return failedf("--keep: %w", err)
	}
	return nil
}
