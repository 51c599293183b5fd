package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/scenario/replay"
)

// replayFlags are the flags that name a controller's event log, and the part of it that runs replay.
type replayFlags struct {
	log       string
	from      time.Duration
	speed     float64
	detection time.Duration
}

func (r *replayFlags) register(f *pflag.FlagSet) {
	f.StringVar(&r.log, "replay", "", "replay the failures in a controller's event log `FILE`; the scenario's failures are left out")
	f.DurationVar(&r.from, "replay-from", 0, "start the collective `DURATION` after the log's first record")
	f.Float64Var(&r.speed, "replay-speed", 1, "replay the log `N` times as fast")
	f.DurationVar(&r.detection, "replay-detection", 10*time.Microsecond, "let switches notice a cut `DURATION` after it")
}

// withReplay returns the scenario with the log's events, and a line about them. Without a log it returns the scenario
// as it is.
func (flags runFlags) withReplay(s *scenario.Scenario) (*scenario.Scenario, string, error) {
	r := flags.replay
	fail := func(err error) (*scenario.Scenario, string, error) {
		return nil, "", fmt.Errorf("--replay: %s: %w", r.log, err)
	}
	if r.log == "" {
		return s, "", nil
	}
	f, err := fabric.New(s.Fabric)
	if err != nil {
		return fail(err)
	}
	file, err := os.Open(r.log)
	if err != nil {
		return fail(err)
	}
	log, err := replay.Read(file, f)
	if err := errors.Join(err, file.Close()); err != nil {
		return fail(err)
	}
	c, err := log.Case(replay.Window{
		From: r.from, Speed: r.speed, Deadline: s.Deadline,
		Detection: fabric.Time(r.detection.Nanoseconds()) * fabric.Nanosecond,
	})
	if err != nil {
		return fail(fmt.Errorf("%w; use --replay-from and --replay-speed", err))
	}
	out := *s
	out.Failures = []scenario.Failure{{Name: "replay of " + filepath.Base(r.log), Events: c.Events, Notifiers: []scenario.Notifier{scenario.NotifyAll}}}
	said := fmt.Sprintf("replay: %d changes of links and %d of the control plane; %d before the run, %d after its deadline",
		c.Links, c.Control, c.Before, c.After)
	if len(log.Cut) > 0 {
		said += fmt.Sprintf("; warning: records that were cut off are left out: %v", log.Cut)
	}
	return &out, said, nil
}
