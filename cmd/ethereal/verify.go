package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/daemon"
	"github.com/ethereal-fabric/ethereal/controller/verify"
	"github.com/ethereal-fabric/ethereal/fabric"
)

// newVerifyCommand makes `ethereal verify`.
func newVerifyCommand() *cobra.Command {
	var (
		switches switchesFlags
		opts     verify.Options
		drained  []string
		every    time.Duration
		format   outputFormat
	)
	c := &cobra.Command{
		Use:   "verify [--fabric FILE --targets FILE]",
		Short: "Prove from the switches' tables that every packet arrives",
		Long: `Reads the tables of all switches and proves from them that every label leads from every ToR to every host along exactly its
path, that packets without a label arrive, and that no packet loops or vanishes: now, and after every single further link
failure, before the controller has reacted. It prints the walk of a packet for which this does not hold. With --drained,
it also proves that no packet without a label crosses these links. If no path is alive between two ToRs, nothing is
proved, and it names them.`,
		Example: `  ethereal verify --fabric fabric.yaml --targets targets.yaml
  ethereal verify --fabric fabric.yaml --targets targets.yaml --online 30s`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if _, err := switches.fillFromDeployment(); err != nil {
				return err
			}
			cfg, _, err := switches.read()
			if err != nil {
				return err
			}
			for {
				err := verifyOnce(c.Context(), cfg, drained, opts, &format, c.OutOrStdout())
				if every == 0 || c.Context().Err() != nil {
					return err
				}
				if err != nil && (format.forPeople() || !errors.Is(err, errNotProved)) {
					fmt.Fprintln(c.ErrOrStderr(), err)
				}
				t := time.NewTimer(every)
				select {
				case <-c.Context().Done():
					t.Stop()
					return nil
				case <-t.C:
				}
			}
		},
	}
	switches.register(c)
	format.register(c)
	c.Flags().IntVar(&opts.Problems, "problems", 3, "print `N` problems at most")
	c.Flags().BoolVar(&opts.NoFailures, "no-failures", false, "prove the present state only, without further failures")
	c.Flags().StringSliceVar(&drained, "drained", nil, "prove that `LINKS`, which are drained, carry only packets whose label names them")
	c.Flags().DurationVar(&every, "online", 0, "repeat the check every `DURATION`")
	return c
}

var errNotProved = failedf("not proved")

func verifyOnce(ctx context.Context, cfg daemon.Config, drained []string, opts verify.Options, format *outputFormat, w io.Writer) error {
	began := time.Now()
	found, err := daemon.Survey(ctx, cfg)
	if err != nil {
		return err
	}
	core, err := daemon.CoreFromSurvey(cfg.Core, found)
	if err != nil {
		return err
	}
	f := cfg.Core.Fabric
	n := verify.Network{
		Fabric: f, Tables: map[fabric.NodeID][]controller.Entry{}, Up: core.LinkUp,
		NoLabels: [2]bool{cfg.Core.CarrierV4 == controller.NoCarrier, cfg.Core.CarrierV6 == controller.NoCarrier},
		Segments: cfg.Core.CarrierV6 == controller.MicroSegments,
		NoQuench: func(id fabric.NodeID) bool { return !cfg.Targets[id].Kind().RetriesUplinks() },
	}
	unused := map[fabric.LinkID]bool{}
	for _, name := range drained {
		id, err := f.LinkByName(name)
		if err != nil {
			return fmt.Errorf("--drained: %w", err)
		}
		unused[id] = true
	}
	n.Drained = func(id fabric.LinkID) bool { return unused[id] }
	var errs []error
	entries := 0
	for _, x := range found {
		switch {
		case x.Err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", f.Name(x.Node), x.Err))
		case !x.Pipeline:
			errs = append(errs, fmt.Errorf("%s does not run the pipeline", f.Name(x.Node)))
		}
		for _, why := range x.Tables.StrayReasons {
			errs = append(errs, fmt.Errorf("%s: %w", f.Name(x.Node), why))
		}
		n.Tables[x.Node] = x.Tables.Entries
		entries += len(x.Tables.Entries)
	}
	if len(errs) > 0 {
		return fmt.Errorf("%w: %w", errNotProved, errors.Join(errs...))
	}
	read := time.Since(began)
	r, err := verify.Check(ctx, n, opts)
	if err != nil {
		return err
	}
	took := time.Since(began)
	if !format.forPeople() {
		return printProof(w, format, f, verifyReport{
			Proved: r.OK() && len(r.Cut) == 0, Cut: pairNames(f, r.Cut), Walks: r.Walks, Entries: entries, Switches: len(found), Failures: r.Failures, Unnotified: r.Unnotified,
			ReadMs: read.Milliseconds(), WalkMs: (took - read).Milliseconds(),
		}, r.Problems)
	}
	for _, p := range r.Problems {
		fmt.Fprint(w, p.Format(f))
	}
	fmt.Fprintf(w, "%d walks through %d entries of %d switches, %d further failures: ", r.Walks, entries, len(found), r.Failures)
	if !r.OK() {
		fmt.Fprintf(w, "%d or more problems\n", len(r.Problems))
		return fmt.Errorf("%w: see the walks above", errNotProved)
	}
	if len(r.Cut) > 0 {
		fmt.Fprintf(w, "%d of %d pairs of ToRs have no live path\n", len(r.Cut), f.ToRs()*(f.ToRs()-1))
		names := pairNames(f, r.Cut[:min(len(r.Cut), opts.Problems)])
		if len(names) < len(r.Cut) {
			names = append(names, "...")
		}
		return fmt.Errorf("%w: packets cannot arrive, whatever the tables are: %s; see `ethereal status` for the links that are down",
			errNotProved, strings.Join(names, ", "))
	}
	if r.Unnotified > 0 {
		fmt.Fprintf(w, "%d end at dead ports of switches that send no quench; ", r.Unnotified)
	}
	fmt.Fprintf(w, "proved (reading %v, walking %v)\n", read.Round(time.Millisecond), (took - read).Round(time.Millisecond))
	return nil
}

// verifyReport is the JSON form of a verification result.
type verifyReport struct {
	Proved     bool            `json:"proved"`
	Walks      int             `json:"walks"`
	Entries    int             `json:"entries"`
	Switches   int             `json:"switches"`
	Failures   int             `json:"failures"`             // further single failures that were looked at
	Unnotified int             `json:"unnotified,omitempty"` // walks that end at dead ports of switches that notify no source
	ReadMs     int64           `json:"read_ms"`
	WalkMs     int64           `json:"walk_ms"`
	Cut        []string        `json:"cut,omitempty"` // pairs of ToRs without a live path: "tor0 to tor1"
	Problems   []verifyProblem `json:"problems"`
}

// pairNames returns pairs of nodes for display.
func pairNames(f *fabric.Fabric, pairs [][2]fabric.NodeID) (names []string) {
	for _, p := range pairs {
		names = append(names, f.Name(p[0])+" to "+f.Name(p[1]))
	}
	return names
}

// verifyProblem is the JSON form of a packet's path that shows that the tables are wrong.
type verifyProblem struct {
	Kind   string `json:"kind"`
	Src    string `json:"src"`
	Host   string `json:"host"`
	IPv6   bool   `json:"ipv6,omitempty"`
	Label  *int   `json:"label,omitempty"`
	Failed string `json:"failed,omitempty"` // the link whose failure is needed for it
	Walk   string `json:"walk"`             // as it is printed for people
}

func printProof(w io.Writer, format *outputFormat, f *fabric.Fabric, p verifyReport, found []verify.Problem) error {
	p.Problems = []verifyProblem{}
	for _, x := range found {
		y := verifyProblem{Kind: string(x.Kind), Src: f.Name(x.Walk.Src), Host: f.Name(x.Walk.Host), IPv6: x.Walk.IPv6, Walk: x.Format(f)}
		if x.Walk.Label != verify.NoLabel {
			label := x.Walk.Label
			y.Label = &label
		}
		if x.Walk.Failed != verify.NoLink {
			y.Failed = f.LinkName(x.Walk.Failed)
		}
		p.Problems = append(p.Problems, y)
	}
	if err := format.write(w, p); err != nil {
		return err
	}
	if !p.Proved {
		return errNotProved
	}
	return nil
}
