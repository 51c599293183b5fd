package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/ethereal-fabric/ethereal/controller/cabling"
	"github.com/ethereal-fabric/ethereal/controller/daemon"
	"github.com/ethereal-fabric/ethereal/controller/preflight"
	"github.com/ethereal-fabric/ethereal/testbed/probe"
)

// preflightFlags are the flags of `ethereal preflight`.
type preflightFlags struct {
	switches    switchesFlags
	checks      checkFlags
	controllers []string
	tokenFile   string
	frame       int
	push        bool
	wait        time.Duration
	deployment  string
}

// newPreflightCommand makes `ethereal preflight`.
func newPreflightCommand() *cobra.Command {
	var flags preflightFlags
	c := &cobra.Command{
		Use:   "preflight [--fabric FILE --targets FILE] [--admin ADDR]...",
		Short: "Check everything that a deployment depends on, and name remedies",
		Long: `Checks everything that a controller depends on: P4Runtime and gNMI of the switches, their programs, room in their tables,
ports, the primary controller, clocks, certificates, the hosts' agents, and the cables. Every line is green, yellow or red,
or unseen if it cannot be checked; all but green lines have a remedy. No table is written. ethereal host preflight checks a
host, on that host.`,
		Example: `  ethereal preflight --fabric fabric.yaml --targets targets.yaml
  ethereal preflight --fabric fabric.yaml --targets targets.yaml --admin 127.0.0.1:9560 --admin-token-file token --frame 4200 -o json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return flags.run(c.Context(), c.OutOrStdout()) },
	}
	f := c.Flags()
	flags.switches.register(c)
	flags.checks.register(c)
	f.StringArrayVar(&flags.controllers, "admin", nil, "ask the controller whose --listen-admin is `ADDR`, HOST:PORT or unix:PATH; may be given again")
	f.StringVar(&flags.tokenFile, "admin-token-file", "", "`FILE` with the controller's token; needed with --admin to check cables")
	f.IntVar(&flags.frame, "frame", 0, "send frames of `BYTES` over every cable; 0: frames of the minimum length")
	f.BoolVar(&flags.push, "push", false, "push the program to switches that run another or none; needed to check cables before a controller runs")
	f.StringVar(&flags.deployment, "deployment", "", "reach switches and hosts as `FILE` says; if a controller runs, the agents also probe every path")
	f.DurationVar(&flags.wait, "wait", 3*time.Second, "wait for frames for `DURATION` at most")
	return c
}

func (p *preflightFlags) run(ctx context.Context, w io.Writer) error {
	if p.frame < 0 || p.frame > cabling.MaxFrame {
		return fmt.Errorf("--frame: %d; write up to %d", p.frame, cabling.MaxFrame)
	}
	if p.push && len(p.controllers) > 0 {
		return errors.New("--push and --admin exclude each other: the controller pushes the program")
	}
	up, err := p.switches.fillFromDeployment()
	if err != nil {
		return err
	}
	if up != nil && len(p.controllers) == 0 && !p.push {
		p.controllers, p.tokenFile = []string{up.Admin}, cmp.Or(p.tokenFile, up.Token)
	}
	p.switches.tls.expired = true // reported as a line
	cfg, files, err := p.switches.read()
	if err != nil {
		return err
	}
	if missing := cfg.Unchecked(); p.push && len(missing) > 0 {
		return fmt.Errorf("--push: %s", missing[0])
	}
	file, err := daemon.ReadFile(p.switches.targets)
	if err != nil {
		return err
	}
	agents, err := file.Agents(cfg.Core.Fabric)
	if err != nil {
		return fmt.Errorf("%s: %w", p.switches.targets, err)
	}
	token, err := readToken(p.tokenFile)
	if err != nil {
		return err
	}
	lines, err := preflight.Run(ctx, preflight.Config{
		Daemon: cfg, Controllers: p.controllers, Token: token, Agents: agents, TLS: files.ClientConfig(p.switches.tls.name), Authorities: files.Authorities,
		Frame: p.frame, Push: p.push, Wait: p.wait,
	})
	if err != nil {
		return failedf("%w", err)
	}
	if p.deployment != "" {
		more, err := probe.Preflight(ctx, cfg.Core.Fabric, p.deployment, cfg.Core.ControlPriority)
		if err != nil {
			return err
		}
		lines = append(lines, more...)
	}
	return p.checks.printLines(w, lines)
}
