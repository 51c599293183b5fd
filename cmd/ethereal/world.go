package main

import (
	"context"
	"fmt"
	"os"

	"github.com/ethereal-fabric/ethereal/testbed/worlds/flow"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/live"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/virtual"
)

// Worlds that a scenario can run in.
const (
	worldVirtual = "virtual"
	worldFlow    = "flow"
	worldLive    = "live"
)

// endedWith is the exit code of a program that this one has started in its place,
// and that has said all there is to say.
type endedWith int

func (e endedWith) Error() string { return fmt.Sprintf("ended with %d", int(e)) }

// enterWorld returns what carries out runs in the world that the flags name, and
// what to call when all are done. For the live world the program starts itself
// again, in namespaces of its own; the error is then how that ended.
func (a *app) enterWorld(ctx context.Context, flags *runFlags) (run Runner, done func(), err error) {
	if flags.check && flags.world != worldVirtual {
		return nil, nil, fmt.Errorf("--check: the %s world has no fast path; use --world %s", flags.world, worldVirtual)
	}
	switch flags.world {
	case worldVirtual:
		if flags.check {
			return virtual.Checked(a.run), func() {}, nil
		}
		return a.run, func() {}, nil
	case worldFlow:
		if len(flags.pcap) > 0 || flags.events != "" {
			return nil, nil, fmt.Errorf("--pcap, --events: the flow world has no packets; use --world %s", worldVirtual)
		}
		return flow.Run, func() {}, nil
	case worldLive:
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
		r := live.NewRunner(dir, a.log)
		return r.Run, r.Close, nil
	}
	return nil, nil, fmt.Errorf("--world: %q is unknown; write %s, %s or %s", flags.world, worldVirtual, worldFlow, worldLive)
}
