//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/live"
)

// liveReactCommand makes `ethereal live react`.
func (a *app) liveReactCommand() *cobra.Command {
	var flags liveFlags
	var notifiers []string
	var ways []string
	var cuts int
	var rto time.Duration
	var quiet, asJSON bool
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
			return inSandbox(c.Context(), func(dir string) error {
				for _, n := range notifiers {
					cfg := live.ReactConfig{
						Fabric: f, Dir: dir, Notifier: scenario.Notifier(n), Cuts: cuts, Payload: flags.payload, RTO: rto, Seed: flags.seed,
					}
					if cfg.Notifier == scenario.NotifyTimeout {
						cfg.Ways = []live.How{live.Silently}
					} else {
						for _, w := range ways {
							cfg.Ways = append(cfg.Ways, live.How(w))
						}
					}
					if !quiet {
						cfg.Log = func(format string, args ...any) { fmt.Fprintf(a.stderr, format+"\n", args...) }
					}
					rs, err := live.React(c.Context(), cfg)
					if err != nil {
						return err
					}
					if asJSON {
						enc := json.NewEncoder(a.stdout)
						for _, r := range rs {
							if err := enc.Encode(r); err != nil {
								return err
							}
						}
						continue
					}
					if err := live.Reactions(a.stdout, cfg.Notifier, rs); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	flags.register(c, "40Mb/s")
	f := c.Flags()
	f.StringSliceVar(&notifiers, "notifiers", []string{"timeout", "quench", "gnmi"}, "`A,B` of timeout, quench, gnmi, all")
	f.StringSliceVar(&ways, "ways", []string{"link-down", "gnmi", "kill"}, "cut in these ways, in turn: `A,B` of silent, link-down, gnmi, kill; with timeout it is silent")
	f.IntVar(&cuts, "cuts", 30, "`N` cuts for each notifier")
	f.DurationVar(&rto, "rto", 50*time.Millisecond, "retransmission timer")
	f.BoolVarP(&quiet, "quiet", "q", false, "show no progress")
	f.BoolVar(&asJSON, "json", false, "print one JSON object a cut")
	return c
}

// liveSoakCommand makes `ethereal live soak`.
func (a *app) liveSoakCommand() *cobra.Command {
	var flags liveFlags
	var cfg live.SoakConfig
	var bytes, message string
	c := &cobra.Command{
		Use:     "soak",
		Short:   "Move bytes while links and switches fail, and compare checksums",
		Example: `  ethereal live soak --bytes 10GB --failures 1000`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			f, err := flags.read()
			if err != nil {
				return err
			}
			var n, m fabric.Bytes
			if err := n.UnmarshalText([]byte(bytes)); err != nil {
				return fmt.Errorf("--bytes: %w", err)
			}
			if err := m.UnmarshalText([]byte(message)); err != nil || m < 2 {
				return fmt.Errorf("--message: %q is no size such as 1MB", message)
			}
			cfg.Fabric, cfg.Bytes, cfg.Message, cfg.Payload, cfg.Seed = f, int64(n), int64(m), flags.payload, flags.seed
			cfg.Log = func(format string, args ...any) { fmt.Fprintf(a.stderr, format+"\n", args...) }
			return inSandbox(c.Context(), func(dir string) error {
				cfg.Dir = dir
				s, err := live.Soak(c.Context(), cfg)
				if s != nil && s.Took > 0 {
					fmt.Fprintf(a.stdout, "%d messages, %v in %v (%.1f MB/s); failures %v; %d flips, %d packets lost, %d sent again, "+
						"%d time-outs, %d quenches, %d duplicates not taken, %d bad CRCs\n", s.Messages, fabric.Bytes(s.Bytes),
						s.Took.Round(time.Millisecond), float64(s.Bytes)/1e6/s.Took.Seconds(), s.Failures, s.Flips, s.Lost, s.Retransmissions,
						s.Timeouts, s.Quenches, s.Duplicates, s.BadICRC)
				}
				if err == nil {
					fmt.Fprintln(a.stdout, "every message arrived once, with the bytes that were sent")
				}
				return err
			})
		},
	}
	flags.register(c, "400Mb/s")
	f := c.Flags()
	f.StringVar(&bytes, "bytes", "100MB", "`SIZE` of all messages")
	f.StringVar(&message, "message", "1MB", "`SIZE` of a message, on average")
	f.IntVar(&cfg.Failures, "failures", 10, "`N` failures of all kinds")
	f.DurationVar(&cfg.RTO, "rto", 400*time.Millisecond, "retransmission timer: longer than packets wait in queues of a slow fabric")
	f.DurationVar(&cfg.Limit, "limit", 0, "begin nothing new after `TIME`, and say how far it came; 0: no limit")
	f.BoolVar(&cfg.Send, "send", false, "by SEND instead of by RDMA WRITE")
	f.IntVar(&cfg.AckEvery, "ack-every", 4, "`PACKETS` for one acknowledgement")
	return c
}

// liveForgeCommand makes `ethereal live forge`.
func (a *app) liveForgeCommand() *cobra.Command {
	var flags liveFlags
	var cfg live.ForgeConfig
	var bytes string
	var attacks []string
	names := make([]string, 0, len(live.Attacks()))
	for _, x := range live.Attacks() {
		names = append(names, string(x))
	}
	c := &cobra.Command{
		Use:     "forge",
		Short:   "Send forged source quenches to a host, and see what it makes of them",
		Example: `  ethereal live forge --quenches 20000`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			f, err := flags.read()
			if err != nil {
				return err
			}
			var n fabric.Bytes
			if err := n.UnmarshalText([]byte(bytes)); err != nil {
				return fmt.Errorf("--bytes: %w", err)
			}
			for _, x := range attacks {
				if !slices.Contains(names, x) {
					return fmt.Errorf("--attacks: %q is unknown; use some of %s", x, strings.Join(names, ","))
				}
			}
			cfg.Fabric, cfg.Bytes, cfg.Payload, cfg.Seed = f, int64(n), flags.payload, flags.seed
			return inSandbox(c.Context(), func(dir string) error {
				for _, x := range attacks {
					cfg.Dir, cfg.Attack = dir, live.Attack(x)
					r, err := live.Forge(c.Context(), cfg)
					if r != nil {
						var verdicts []string
						for v, n := range r.Verdicts {
							if n > 0 {
								verdicts = append(verdicts, fmt.Sprintf("%v %d", hostagent.Verdict(v), n))
							}
						}
						fmt.Fprintf(a.stdout, "%-9s %7d forged, %7d well-formed, %6d not: %s; %d flips; %v moved in %v on %d paths; %v CPU (%.0f%%), %v resident\n",
							r.Attack, r.Sent, r.Arrived, r.Bad, strings.Join(verdicts, ", "), r.Flips, n, r.Took.Round(time.Millisecond),
							r.Paths, r.CPU.Round(time.Millisecond), 100*r.CPU.Seconds()/r.Took.Seconds(), fabric.Bytes(r.RSS))
					}
					if err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	flags.register(c, "20Mb/s")
	f := c.Flags()
	f.StringVar(&bytes, "bytes", "5MB", "`SIZE` of the message that the host sends meanwhile")
	f.IntVar(&cfg.Rate, "quenches", 2000, "forge `N` quenches a second")
	f.DurationVar(&cfg.RTO, "rto", 100*time.Millisecond, "retransmission timer")
	f.StringSliceVar(&attacks, "attacks", names, "`A,B` of "+strings.Join(names, ", "))
	return c
}
