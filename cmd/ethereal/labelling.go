package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"github.com/spf13/cobra"

	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
	"github.com/ethereal-fabric/ethereal/hostagent/owners"
	"github.com/ethereal-fabric/ethereal/hostagent/process"
	"github.com/ethereal-fabric/ethereal/hostagent/tagger"
	"github.com/ethereal-fabric/ethereal/internal/listen"
)

// Labellers that --labeller names.
const (
	labellerSoft   = "soft"   // queue pairs are those of the software endpoint in this process
	labellerTagger = "tagger" // other programs' packets, in the kernel
	labellerVerbs  = "verbs"  // other programs' queue pairs, by themselves
)

// labellingFlags are of agents for other programs' queue pairs.
type labellingFlags struct {
	agentFlags
	labeller        string
	ipv6FlowLabel   bool
	pinDir          string
	remove          bool
	owners          string
	quenchAddresses []string
}

func (l *labellingFlags) register(c *cobra.Command) {
	l.agentFlags.register(c)
	f := c.Flags()
	f.BoolVar(&l.ipv6FlowLabel, "ipv6-flow-label", false,
		"carry labels in the flow label of IPv6, not in the source port")
	f.StringVar(&l.pinDir, "pin-dir", "", "keep labels in `DIR` of a bpf file system when this process ends; labels in it are taken over")
	f.BoolVar(&l.remove, "remove", false, "remove the program and labels that --pin-dir keeps, and exit")
	f.StringArrayVar(&l.quenchAddresses, "quench-address", nil,
		"receive source quenches at `IP`; may be given again (default: those of this machine's addresses that the fabric gives the host)")
}

// run adopts other programs' queue pairs until ctx ends.
func (l *labellingFlags) run(ctx context.Context, stderr io.Writer) error {
	s, err := l.read(stderr)
	if err != nil {
		return err
	}
	p := &process.Labelling{Agent: s}
	for _, text := range l.quenchAddresses {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			return fmt.Errorf("--quench-address: %w", err)
		}
		p.QuenchAddresses = append(p.QuenchAddresses, addr)
	}
	if p.Admin, err = listen.At("--listen-admin", l.admin, s.Files); err != nil {
		return err
	}
	if err := l.newLabeller(p); err != nil || l.remove {
		return errors.Join(err, listen.Close(p.Admin))
	}
	s.Log.Info("labels are written", "labeller", l.labeller)
	if err := p.Run(ctx); err != nil {
		return failedf("%w", err)
	}
	return nil
}

// newLabeller makes the labeller. With --remove it removes the labels and programs that an earlier run left.
func (l *labellingFlags) newLabeller(p *process.Labelling) (err error) {
	switch l.labeller {
	case labellerVerbs:
		if l.owners == "" || len(l.interfaces) > 0 || l.pinDir != "" || l.remove || l.ipv6FlowLabel {
			return fmt.Errorf("--labeller %s takes --listen-owners, where queue pairs' owners join, and none of --interface, --pin-dir, --remove, --ipv6-flow-label", labellerVerbs)
		}
		p.Owners = owners.NewServer()
		p.Owners.Log, p.Labels = p.Log, p.Owners
		p.OwnerListener, err = listen.Unix("--listen-owners", l.owners)
		return err
	case labellerTagger:
		if l.owners != "" || len(l.interfaces) == 0 {
			return fmt.Errorf("--labeller %s takes --interface, whose packets it labels", labellerTagger)
		}
		tc := tagger.Config{Interfaces: l.interfaces, PinDir: l.pinDir}
		if l.ipv6FlowLabel {
			tc.IPv6 = labeller.FlowLabel
		}
		t, err := tagger.Attach(tc)
		if err != nil {
			return failedf("%w", err)
		}
		if l.remove {
			return t.Remove()
		}
		p.Log.Info("attached", "hook", t.Hook())
		p.Labels = t
		return nil
	}
	return fmt.Errorf("--labeller: %q is unknown; write %s, %s or %s", l.labeller, labellerSoft, labellerTagger,
		labellerVerbs)
}
