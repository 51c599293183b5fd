package main

import (
	"fmt"
	"slices"

	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// checkWorld refuses flags that the world does not carry out, before anything is read.
func (flags *runFlags) checkWorld() error {
	if !slices.Contains(scenario.WorldNames(), flags.world) || flags.given == nil {
		return nil // what is no world is said later
	}
	simulated := []string{scenario.WorldVirtual, scenario.WorldFlow}
	packets := []string{scenario.WorldVirtual, scenario.WorldLive, scenario.WorldMininet, scenario.WorldLab}
	const noPackets = "the %s world has no packets; use --world virtual"
	const noPage = "the %s world has no controller of its own; use --trace and ethereal view, or ethereal mininet up --view"
	type worldFlag struct {
		name string
		in   []string // the worlds that carry it out
		why  string   // the others do not
	}
	all := []worldFlag{
		{"check", simulated[:1], "the %s world has no fast path; use --world virtual"},
		{"cores", simulated[:1], "the %s world does not simulate packets; use --world virtual"},
		{"force", simulated, "the %s world has no estimate of its memory; leave it out"},
		{"parallel", simulated, "the %s world carries out one run at a time; leave it out"},
		{"replay", simulated[:1], "the %s world has no controller to kill; use --world virtual"},
		{"pcap", simulated[:1], "the %s world has no captures; use tcpdump, in the live world under ethereal live exec"},
		{"events", packets, noPackets},
		{"flows", simulated[:1], "the %s world does not measure each message; use --world virtual"},
		{"record", packets, noPackets},
		{"view", []string{scenario.WorldLive}, noPage}, {"listen-view", []string{scenario.WorldLive}, noPage},
		{"datapath", []string{scenario.WorldLive}, "the %s world starts no switches of ours; use --world live, or ethereal mininet up --switch"},
	}
	for k := range flags.flagValues {
		all = append(all, worldFlag{k.Name(), []string{scenario.WorldLive}, "the %s world starts no switches of ours; use --world live"})
	}
	for _, f := range all {
		if flags.given(f.name) && !slices.Contains(f.in, flags.world) {
			return fmt.Errorf("--%s: "+f.why, f.name, flags.world)
		}
	}
	return nil
}
