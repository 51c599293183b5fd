package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ethereal-fabric/ethereal/controller/cabling"
	"github.com/ethereal-fabric/ethereal/controller/daemon"
	"github.com/ethereal-fabric/ethereal/fabric"
)

// topoCheckFlags are the flags of `ethereal topo check`.
type topoCheckFlags struct {
	switches switchesFlags
	admin    adminFlags
	format   outputFormat
	election uint64
	opts     daemon.CablingOptions
}

// errCabling is how a check ends that found something.
var errCabling = failedf("the cables are not as planned")

// newTopoCheckCommand makes `ethereal topo check`.
func newTopoCheckCommand() *cobra.Command {
	var flags topoCheckFlags
	c := &cobra.Command{
		Use:   "check --fabric FILE (--targets FILE | --admin ADDR)",
		Short: "Compare the cables with the fabric, and name the plugs to move",
		Long: `Every switch sends an LLDP frame out of every port of the fabric. The command compares where the frames arrive with the
fabric, and prints which cables are as planned, which lead elsewhere, and which plugs to move. A switch sends frames for
its primary controller only: name a running controller with --admin, or the switches with --targets. No table is written.`,
		Example: `  ethereal topo check --fabric fabric.yaml --admin 127.0.0.1:9560 --admin-token-file token
  ethereal topo check --fabric fabric.yaml --targets targets.yaml --push -o dot | dot -Tsvg > cables.svg`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return flags.run(c.Context(), c.Flags().Changed("admin"), c.OutOrStdout())
		},
	}
	f := c.Flags()
	flags.switches.register(c)
	if err := c.MarkFlagRequired("fabric"); err != nil { // and --targets or --admin
		panic(err) // the flag was just defined
	}
	flags.admin.registerAddr(c)
	flags.admin.registerToken(c)
	flags.format.register(c, formatTable, formatJSON, formatYAML, formatDOT)
	f.DurationVar(&flags.opts.Wait, "wait", 3*time.Second, "wait for frames for `DURATION` at most; 35s if hosts run another LLDP agent")
	f.IntVar(&flags.opts.Frame, "frame", 0, "send frames of `BYTES` over every cable; finds ports whose MTU is too small")
	f.BoolVar(&flags.opts.Push, "push", false, "push the program to switches that run another or none; with --targets")
	f.Uint64Var(&flags.election, "election-id", 1, "use election id `N`; with --targets: lower than the controllers' ids, so that they stay primary")
	return c
}

func (t *topoCheckFlags) run(ctx context.Context, ask bool, w io.Writer) error {
	if t.opts.Frame < 0 || t.opts.Frame > cabling.MaxFrame {
		return fmt.Errorf("--frame: %d; write up to %d", t.opts.Frame, cabling.MaxFrame)
	}
	if ask == (t.switches.targets != "") {
		return errors.New("give one of --targets and --admin")
	}
	spec, err := fabric.LoadSpec(t.switches.fabric)
	if err != nil {
		return err
	}
	f, err := fabric.NewSinglePlane(spec, "ethereal topo check")
	if err != nil {
		return err
	}
	r, err := t.check(ctx, ask)
	if err != nil {
		return err
	}
	if err := t.print(w, f, r); err != nil {
		return failedf("%w", err)
	}
	if !r.OK() {
		return errCabling
	}
	return nil
}

func (t *topoCheckFlags) check(ctx context.Context, ask bool) (*cabling.Report, error) {
	if ask {
		t.admin.tls = t.switches.tls
		body, err := t.admin.call(ctx, http.MethodPost, "/cabling", url.Values{"wait": {t.opts.Wait.String()}, "frame": {strconv.Itoa(t.opts.Frame)}})
		if err != nil {
			return nil, err
		}
		r := new(cabling.Report)
		if err := json.Unmarshal(body, r); err != nil {
			return nil, failedf("the answer is not understood: %w", err)
		}
		return r, nil
	}
	cfg, _, err := t.switches.read()
	if err != nil {
		return nil, err
	}
	cfg.Own = t.election
	r, err := daemon.CheckCabling(ctx, cfg, t.opts)
	if err != nil {
		return nil, failedf("%w", err)
	}
	return r, nil
}

func (t *topoCheckFlags) print(w io.Writer, f *fabric.Fabric, r *cabling.Report) error {
	switch t.format.String() {
	case formatTable:
		return printCabling(w, f, r)
	case formatDOT:
		_, err := w.Write(cablingDOT(f, r))
		return err
	}
	return t.format.write(w, r)
}

// printCabling writes a report for people: what is wrong and what to do first,
// then the links that are not confirmed.
func printCabling(w io.Writer, f *fabric.Fabric, r *cabling.Report) error {
	for _, fault := range r.Faults {
		fmt.Fprintf(w, "%s\n    %s\n", fault.What, fault.Remedy)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Unasked)) {
		fmt.Fprintf(w, "%s was not asked: %s\n", name, r.Unasked[name])
	}
	if r.Count(cabling.Confirmed) < len(r.Links) {
		tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(tab, "LINK\tSTATE\tLOWER END\tUPPER END\tLOWER END LEADS TO\tUPPER END LEADS TO")
		for _, l := range r.Links {
			if l.State == cabling.Confirmed {
				continue
			}
			a, b := linkEnds(f, l.Name)
			fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%s\t%s\n", l.Name, l.State, a, b, orDash(l.FoundA), orDash(l.FoundB))
		}
		if err := tab.Flush(); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "%d of %d links confirmed\n", r.Count(cabling.Confirmed), len(r.Links))
	return err
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func linkEnds(f *fabric.Fabric, name string) (a, b string) {
	id, err := f.LinkByName(name)
	if err != nil {
		return "?", "?" // the controller's fabric is another
	}
	names := cabling.PlainNames(f)
	return names(cabling.PlaceOf(f.Link(id).A)), names(cabling.PlaceOf(f.Link(id).B))
}

// cablingDOT draws the fabric: what is confirmed as it is, what is not in colour,
// with what was found at its ends.
func cablingDOT(f *fabric.Fabric, r *cabling.Report) []byte {
	colours := map[cabling.State]string{cabling.OneWay: "orange", cabling.Miswired: "red", cabling.Silent: "gray", cabling.Unasked: "gray"}
	attributes := map[string]string{}
	for _, l := range r.Links {
		c, bad := colours[l.State]
		if !bad {
			continue
		}
		a := fmt.Sprintf(`color=%s penwidth=2 label=%q`, c, l.State.String())
		if l.FoundA != "" {
			a += fmt.Sprintf(" taillabel=%q", l.FoundA)
		}
		if l.FoundB != "" {
			a += fmt.Sprintf(" headlabel=%q", l.FoundB)
		}
		attributes[l.Name] = a
	}
	return fabricDOT(f, attributes)
}
