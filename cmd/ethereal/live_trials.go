//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/live"
)

// liveReactCommand makes `ethereal live react`.
func (a *app) liveReactCommand() *cobra.Command {
	var flags liveFlags
	var notifiers []string
	var methods []string
	var cuts int
	var rto time.Duration
	var quiet bool
	format := outputFormat{}
	c := &cobra.Command{
		Use:   "react",
		Short: "Cut links under traffic and measure how long hosts go on using them",
		Example: `  ethereal live react --notifiers quench --cuts 200
  ethereal live react --notifiers timeout,quench,gnmi --cuts 30`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			f, err := flags.read()
			if err != nil {
				return err
			}
			return inSandbox(c.Context(), "", func(dir string) error {
				for _, n := range notifiers {
					cfg := live.ReactConfig{
						Fabric: f, Dir: dir, Switches: flags.switches, Notifier: scenario.Notifier(n), Cuts: cuts, Payload: flags.payload,
						RTO: rto, Seed: flags.seed,
					}
					if cfg.Notifier == scenario.NotifyTimeout {
						cfg.Methods = []live.CutMethod{live.Silently}
					} else {
						for _, w := range methods {
							cfg.Methods = append(cfg.Methods, live.CutMethod(w))
						}
					}
					if !quiet {
						cfg.Log = func(format string, args ...any) { fmt.Fprintf(a.stderr, format+"\n", args...) }
					}
					rs, err := live.React(c.Context(), cfg)
					if len(rs) == 0 {
						return err
					}
					if !format.forPeople() {
						enc := json.NewEncoder(a.stdout)
						for _, r := range rs {
							if err := enc.Encode(r); err != nil {
								return err
							}
						}
					} else if err := live.Reactions(a.stdout, cfg.Notifier, rs); err != nil {
						return err
					}
					if err != nil { // the others are known
						return err
					}
				}
				return nil
			})
		},
	}
	flags.register(c, "40Mb/s", true)
	f := c.Flags()
	f.StringSliceVar(&notifiers, "notifiers", []string{"timeout", "quench", "gnmi"}, "use these notifiers, `A,B`; each is timeout, quench, gnmi or all")
	f.StringSliceVar(&methods, "ways", []string{"link-down", "gnmi", "kill"}, "cut in these ways in turn, `A,B`; each is silent, link-down, gnmi or kill; with the notifier timeout all cuts are silent")
	f.IntVar(&cuts, "cuts", 30, "make `N` cuts for each notifier")
	f.DurationVar(&rto, "rto", 50*time.Millisecond, "set retransmission timers to `DURATION`")
	f.BoolVarP(&quiet, "quiet", "q", false, "print less; no progress")
	format.register(c, formatTable, formatJSON)
	return c
}
