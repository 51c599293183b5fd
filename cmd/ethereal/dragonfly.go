package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/ethereal-fabric/ethereal/testbed/worlds/dragonfly"
)

func (a *app) dragonflyCommand() *cobra.Command {
	var format outputFormat
	c := &cobra.Command{
		Use:   "dragonfly EXPERIMENT",
		Short: "Compare path choices on a dragonfly fabric, by link loads",
		Long: `Carries out an experiment file on a dragonfly fabric and prints what the fullest link has to carry under each
scheme, over what no choice of paths can go below. There are no packets in it; docs/ethereal-dragonfly.md says what is
modelled.`,
		Example: `  ethereal dragonfly testbed/worlds/dragonfly/examples/compare.yaml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("dragonfly takes one experiment file, not %d; "+
					"as in ethereal dragonfly testbed/worlds/dragonfly/examples/compare.yaml", len(args))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			e, err := dragonfly.Load(args[0])
			if err != nil {
				return err
			}
			var results []dragonfly.Result
			if err := dragonfly.Run(c.Context(), e, func(r dragonfly.Result) { results = append(results, r) }); err != nil {
				if errors.Is(err, context.Canceled) {
					return fmt.Errorf("%w: %d runs were complete", errInterrupted, len(results))
				}
				return fmt.Errorf("%w: %w", errRun, err)
			}
			if !format.people() {
				return format.write(a.stdout, results)
			}
			return dragonflyTable(a.stdout, results)
		},
	}
	format.register(c)
	return c
}

// dragonflyTable prints a row for each failure, traffic and scheme: the median of its seeds, and their range.
func dragonflyTable(out io.Writer, results []dragonfly.Result) error {
	type row struct{ failure, traffic, scheme string }
	var order []row
	rows := map[row][]dragonfly.Result{}
	for _, r := range results {
		key := row{r.Failure, r.Traffic, r.Scheme}
		if rows[key] == nil {
			order = append(order, key)
		}
		rows[key] = append(rows[key], r)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "FAILURE\tTRAFFIC\tSCHEME\tLOAD/BOUND\tFROM\tTO\tLOAD us\tLINKS\tCUTS\tPIECES/FLOWS")
	for _, key := range order {
		list := rows[key]
		slices.SortStableFunc(list, func(x, y dragonfly.Result) int { return cmp.Compare(x.OverBound(), y.OverBound()) })
		mid := list[len(list)/2]
		pieces := "-\tpackets"
		if mid.Pieces > 0 {
			pieces = fmt.Sprintf("%d\t%d/%d", mid.Cuts, mid.Pieces, mid.Flows)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%.3f\t%.3f\t%.3f\t%.2f\t%.2f\t%s\n", key.failure, key.traffic, key.scheme,
			mid.OverBound(), list[0].OverBound(), list[len(list)-1].OverBound(), mid.Load, mid.Length, pieces)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("%w: printing: %w", errRun, err)
	}
	return nil
}
