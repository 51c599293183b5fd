package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
	"github.com/ethereal-fabric/ethereal/p4switch/stf"
)

// newSwitchTestCommand makes `ethereal switch test`.
func newSwitchTestCommand() *cobra.Command {
	var json string
	c := &cobra.Command{
		Use:   "test --program FILE STF...",
		Short: "Play p4c's STF tests against a compiled program",
		Long: `Runs STF scripts (add table entries, send packets, expect packets) against a program that p4c compiled to BMv2 JSON, each
on a fresh switch, and prints the differences. It exits with 1 if a script fails.`,
		Example: "  ethereal switch test --program program.json program.stf",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return runSTF(json, args, c.OutOrStdout())
		},
	}
	c.Flags().StringVar(&json, "program", "", "run the P4 program in `FILE`, BMv2 JSON")
	if err := c.MarkFlagRequired("program"); err != nil {
		panic(err) // only for a flag that does not exist
	}
	return c
}

func runSTF(json string, scripts []string, out io.Writer) error {
	src, err := readBMv2(json)
	if err != nil {
		return fmt.Errorf("switch test: %w", err)
	}
	prog, err := program.Load(src)
	if err != nil {
		return fmt.Errorf("switch test: %s: %w", json, err)
	}
	failed := 0
	for _, name := range scripts {
		text, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("switch test: %w", err)
		}
		script, err := stf.Parse(name, text)
		if err != nil {
			return err
		}
		report, err := script.Run(prog)
		if err != nil {
			return err
		}
		verdict := "pass"
		if !report.Passed() {
			verdict = "FAIL"
			failed++
		}
		if _, err := fmt.Fprintf(out, "%s %s: %d sent, %d expected, %d received\n", verdict, name, report.Sent, report.Expected, report.Received); err != nil {
			return err
		}
		for _, f := range report.Failures {
			if _, err := fmt.Fprintf(out, "  %s\n", f); err != nil {
				return err
			}
		}
	}
	if failed > 0 {
		return failedf("%d of %d scripts", failed, len(scripts))
	}
	return nil
}
