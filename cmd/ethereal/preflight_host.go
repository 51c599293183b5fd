package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent/hostcheck"
)

// preflightHostFlags are the flags of `ethereal preflight host`.
type preflightHostFlags struct {
	fabric, host, iface string
	mtu                 int
	verbs, owners       string
	checks              checkFlags
}

// newPreflightHostCommand makes `ethereal preflight host`.
func newPreflightHostCommand() *cobra.Command {
	var flags preflightHostFlags
	c := &cobra.Command{
		Use:   "host --fabric FILE --host HOST --interface IF",
		Short: "Check what this host's part in the fabric depends on",
		Long: `Looks at the host that it runs on: kernel, privileges, clock, the interface to the ToR with its MTU, MAC address, speed and
addresses, and what the driver shows of the RNIC: GIDs and congestion control. Run it as the user that the agent runs as.`,
		Example: `  ethereal preflight host --fabric fabric.yaml --host h0 --interface eth2 --mtu 4200`,
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return flags.run(c.OutOrStdout()) },
	}
	f := c.Flags()
	f.StringVar(&flags.fabric, "fabric", "", "read the fabric from `FILE`, as `ethereal topo` prints it")
	f.StringVar(&flags.host, "host", "", "which `HOST` this is: its name in the fabric, or its rank")
	f.StringVar(&flags.iface, "interface", "", "the network `INTERFACE` to the ToR")
	f.IntVar(&flags.mtu, "mtu", 4200, "`BYTES` that the interface's packets need to have room for; 4200 is RoCEv2's 4096 and headers")
	f.StringVar(&flags.verbs, "verbs", "", "ethereal nic is to be a device for programs at `unix:PATH`")
	f.StringVar(&flags.owners, "owners", "", "queue pairs' owners are to join the agent at `unix:PATH`")
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
	f, err := fabric.NewSinglePlane(spec, "ethereal preflight")
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
	return p.checks.show(w, lines)
}
