package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent/hostcheck"
)

// preflightHostFlags are the flags of `ethereal host preflight`.
type preflightHostFlags struct {
	fabric, host, iface string
	mtu                 int
	verbs, owners       string
	checks              checkFlags
}

// newPreflightHostCommand makes `ethereal host preflight`.
func newPreflightHostCommand() *cobra.Command {
	var flags preflightHostFlags
	c := &cobra.Command{
		Use:   "preflight --fabric FILE --host HOST --interface IF",
		Short: "Check what this host's part in the fabric depends on",
		Long: `Checks the host on which it runs: kernel, privileges, clock, the interface to the ToR with its MTU, MAC address, speed and
addresses, and the RNIC's GIDs and congestion control as far as the driver shows them. Run it as the agent's user.`,
		Example: `  ethereal host preflight --fabric fabric.yaml --host h0 --interface eth2 --mtu 4200`,
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return flags.run(c.OutOrStdout()) },
	}
	f := c.Flags()
	f.StringVar(&flags.fabric, "fabric", "", "read the fabric from `FILE`, as `ethereal topo` prints it")
	f.StringVar(&flags.host, "host", "", "act as `HOST` of the fabric; its name or rank")
	f.StringVar(&flags.iface, "interface", "", "the network `INTERFACE` to the ToR")
	f.IntVar(&flags.mtu, "mtu", 4200, "MTU of the interfaces, `BYTES`; at least; 4200 is RoCEv2's payload of 4096 and its headers")
	f.StringVar(&flags.verbs, "verbs", "", "check that ethereal host nic serves programs at `unix:PATH`")
	f.StringVar(&flags.owners, "owners", "", "check that the agent accepts owners of queue pairs at `unix:PATH`")
	flags.checks.register(c)
	for _, name := range []string{"fabric", "host", "interface"} {
		if err := c.MarkFlagRequired(name); err != nil {
			panic(err) // the flag was just defined
		}
	}
	return c
}

func (p *preflightHostFlags) run(w io.Writer) error {
	spec, err := fabric.LoadSpec(p.fabric)
	if err != nil {
		return err
	}
	f, err := fabric.NewSinglePlane(spec, "ethereal host preflight")
	if err != nil {
		return err
	}
	host, err := hostOf(f, "--host", p.host)
	if err != nil {
		return err
	}
	cfg := hostcheck.Config{Fabric: f, Host: host, Interface: p.iface, MTU: p.mtu}
	for _, s := range []struct {
		flag, given string
		to          *string
	}{{"--verbs", p.verbs, &cfg.Verbs}, {"--owners", p.owners, &cfg.Owners}} {
		path, ok := strings.CutPrefix(s.given, "unix:")
		if s.given != "" && !ok {
			return fmt.Errorf("%s: %q is not unix:PATH", s.flag, s.given)
		}
		*s.to = path
	}
	lines, err := hostcheck.Run(cfg)
	if err != nil {
		return err
	}
	return p.checks.printLines(w, lines)
}
