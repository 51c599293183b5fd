package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/ethereal-fabric/ethereal/testbed/runner"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/virtual"
)

// estimateRuns estimates the memory and time that runs in the virtual or flow world need, and prints the estimate.
// parallel runs are executed at a time, each on a number of cores (0: as [runner.CoresOf] returns). It returns an error
// if the free memory does not suffice.
func (a *app) estimateRuns(world string, runs []scenario.Run, parallel, cores int,
	force, quiet bool) ([]virtual.Estimate, error) {
	estimate, smaller := virtual.Estimates, "use --world flow (ethereal run), or a fabric of fewer hosts and ports"
	if world == scenario.WorldFlow {
		estimate, smaller, cores = virtual.FlowEstimates, "use a fabric of fewer hosts and labels", 1
	}
	estimates := estimate(runs)
	if len(runs) == 0 {
		return estimates, nil
	}
	parallel = min(parallel, len(runs))
	sizes, seconds, largest := make([]int64, len(runs)), 0.0, 0
	for i, e := range estimates {
		sizes[i] = e.BytesOn(runner.CoresOf(runs[i], cores, parallel))
		seconds += e.Seconds()
		if sizes[i] > sizes[largest] {
			largest = i
		}
	}
	slices.Sort(sizes)
	need := int64(virtual.EstimateProcess)
	for _, n := range sizes[len(sizes)-parallel:] {
		need += n
	}
	if !force && a.free != nil {
		if free, known := a.free(); known && need > free {
			remedy := smaller
			if fit := (free - virtual.EstimateProcess) / max(1, estimates[largest].Bytes); fit > 0 {
				remedy = fmt.Sprintf("use --parallel %d", min(fit, int64(parallel)))
				if cores != 1 {
					remedy += " --cores 1"
				}
			}
			return nil, fmt.Errorf("memory: %s is free, and about %s needed (%d at a time; %s, on %d hosts); %s, or --force to begin all the same",
				byteText(free), byteText(need), parallel, runs[largest], runs[largest].Fabric.Hosts(), remedy)
		}
	}
	if !quiet {
		took := time.Duration(seconds / float64(parallel) * float64(time.Second)).Round(time.Second)
		fmt.Fprintf(a.stderr, "estimate: %s of memory, %v\n", byteText(need), max(took, time.Second))
	}
	return estimates, nil
}

// byteText writes bytes for people.
func byteText(n int64) string {
	if n >= 1e9 {
		return fmt.Sprintf("%.1f GB", float64(n)/1e9)
	}
	return fmt.Sprintf("%d MB", n/1e6)
}

func secondsOf(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Second)
}
