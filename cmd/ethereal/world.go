package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/ethereal-fabric/ethereal/testbed/runner"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/flow"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/live"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/virtual"
)

// endedWith is the exit code of a program that this one has started in its place,
// and that has said all there is to say.
type endedWith int

func (e endedWith) Error() string { return fmt.Sprintf("ended with %d", int(e)) }

// enterWorld returns what carries out runs in the world that the flags name, and
// what to call when all are done. For the live world the program starts itself
// again, in namespaces of its own; the error is then how that ended.
func (a *app) enterWorld(ctx context.Context, flags *runFlags) (run runner.Run, done func(), err error) {
	if flags.check && flags.world != scenario.WorldVirtual {
		return nil, nil, fmt.Errorf("--check: the %s world has no fast path; use --world %s", flags.world, scenario.WorldVirtual)
	}
	switch flags.world {
	case scenario.WorldVirtual:
		if flags.check {
			return virtual.Checked(a.run), func() {}, nil
		}
		return a.run, func() {}, nil
	case scenario.WorldFlow:
		if len(flags.pcap) > 0 || flags.events != "" {
			return nil, nil, fmt.Errorf("--pcap, --events: the flow world has no packets; use --world %s", scenario.WorldVirtual)
		}
		return flow.Run, func() {}, nil
	case scenario.WorldLive:
		if len(flags.pcap) > 0 {
			return nil, nil, fmt.Errorf("--pcap: the live world has no captures; use tcpdump under ethereal live exec")
		}
		dir, ok := live.Inside()
		if !ok {
			code, err := live.Enter(ctx, os.Args[1:])
			if err != nil {
				return nil, nil, fmt.Errorf("%w: %w", errRun, err)
			}
			return nil, nil, endedWith(code)
		}
		flags.parallel = 1
		w := runner.NewLive(dir, a.log)
		return w.Run, w.Close, nil
	case scenario.WorldMininet, scenario.WorldLab:
		if len(flags.pcap) > 0 || flags.events != "" {
			return nil, nil, fmt.Errorf("--pcap, --events: not in the %s world; its switches and hosts are others'", flags.world)
		}
		if flags.deployment == "" {
			return nil, nil, fmt.Errorf("--world %s takes --deployment FILE; mininet/run.py writes one", flags.world)
		}
		d, err := runner.LoadDeployment(flags.deployment)
		if err != nil {
			return nil, nil, err
		}
		w, err := runner.Attach(ctx, flags.world, d, nil)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: %w", errRun, err)
		}
		flags.parallel = 1
		return w.Run, func() { w.Close() }, nil //nolint:errcheck // nothing is left to say
	}
	return nil, nil, fmt.Errorf("--world: %q is unknown; write one of %s", flags.world, strings.Join(scenario.WorldNames(), ", "))
}
