package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ethereal-fabric/ethereal/testbed/report"
)

func (a *app) diagnoseCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "diagnose FILE...",
		Short: "Find tiers of switches whose hash polarises",
		Long: `Reads results with counters of links, of "ethereal run --out" or "ethereal bench --full", and says for each run which tier
of switches polarises: its hash leaves uplinks unused because the tier below has chosen by the same hash.`,
		Example: `  ethereal diagnose polarisation.jsonl`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("diagnose takes at least one file of results; ethereal run --out writes them")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			rs, err := readResults(args)
			if err != nil {
				return err
			}
			return report.Diagnose(a.stdout, rs)
		},
	}
}
