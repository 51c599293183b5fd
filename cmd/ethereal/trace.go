package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/workload"
)

func (a *app) traceCommand() *cobra.Command {
	var ranks int
	var out string
	c := &cobra.Command{
		Hidden: true, // for other simulators
		Use:    "trace WORKLOAD",
		Short:  "Write a workload as a Chakra execution trace",
		Long: `Writes the operations of each rank of a workload file as an MLCommons Chakra execution trace: one file per rank,
FILE.RANK.et, and FILE.groups.json with the groups of ranks. Other simulators read these files, and so does a workload file
with the key chakra.`,
		Example: `  ethereal trace testbed/scenarios/workloads/gpt.yaml --ranks 16 --out gpt`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("trace takes one workload file, not %d; as in ethereal trace testbed/scenarios/workloads/gpt.yaml", len(args))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if ranks < 1 || ranks > fabric.MaxPlaneHosts {
				return fmt.Errorf("--ranks: %d; write 1 to %d, the hosts of the largest fabric", ranks, fabric.MaxPlaneHosts)
			}
			p, err := workload.Load(args[0], workload.Place{Ranks: ranks, Seed: 1})
			if err != nil {
				return importHint(args[0], err)
			}
			if err := workload.WriteChakra(out, p); err != nil {
				return fmt.Errorf("--out: %w; name a prefix in a folder that exists", err)
			}
			bytes, err := p.TotalBytes()
			fmt.Fprintf(a.stdout, "%d ranks, %d bytes of messages\n", len(p.Ranks), bytes)
			return err
		},
	}
	c.Flags().IntVar(&ranks, "ranks", 16, "write the files of `N` ranks; ranks that the workload does not use do nothing")
	c.Flags().StringVar(&out, "out", "trace", "write results to `FILE`; one file per rank: FILE.0.et, FILE.1.et, ...")
	return c
}
