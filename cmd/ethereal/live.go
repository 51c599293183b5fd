//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/transport"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/live"
)

// liveFlags are the flags that the commands of `ethereal live` share.
type liveFlags struct {
	fabric  string
	k       int
	rate    string
	payload int
	seed    uint64
	liveSwitches
	switches live.Switches // as read says
}

// register defines them; binaries as for liveSwitches.
func (l *liveFlags) register(c *cobra.Command, rate string, binaries bool) {
	f := c.Flags()
	f.StringVar(&l.fabric, "fabric", "", "read the fabric from `FILE`, as `ethereal topo` prints it; by default a fat-tree of --k")
	f.IntVar(&l.k, "k", 4, "make a fat-tree of switches with `N` ports")
	f.StringVar(&l.rate, "rate", rate, "rate of links, `RATE`, as in 100Gb/s; of the fat-tree of --k")
	f.IntVar(&l.payload, "payload", 0, "payload of a full packet, `BYTES` (default 9000; 4096 on links below 1Gb/s)")
	f.Uint64Var(&l.seed, "seed", 1, "seed of random choices, `N`")
	l.liveSwitches.register(c, binaries)
}

func (l *liveFlags) read() (*fabric.Fabric, error) {
	var err error
	if l.switches, err = l.selected(); err != nil {
		return nil, err
	}
	spec := fabric.Spec{Kind: fabric.KindFatTree, K: l.k}
	if l.fabric != "" {
		if spec, err = fabric.LoadSpec(l.fabric); err != nil {
			return nil, err
		}
	} else {
		var rate fabric.Rate
		if err := rate.UnmarshalText([]byte(l.rate)); err != nil {
			return nil, fmt.Errorf("--rate: %w", err)
		}
		link := fabric.LinkSpec{Rate: rate, Delay: 10 * fabric.Microsecond}
		spec.HostLink, spec.ToRUplink, spec.AggUplink = link, link, link
	}
	f, err := fabric.NewSinglePlane(spec, "the live world")
	if err == nil && l.payload == 0 {
		l.payload = transport.DefaultMTU
		if f.Link(f.Node(0).Link(1)).Rate < fabric.Gbps { // a queue of such packets would outlast a time-out
			l.payload = 4096
		}
	}
	return f, err
}

// liveCommand makes `ethereal live`.
func (a *app) liveCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "live",
		Short: "Start a fabric of processes on this machine, and run programs on its hosts",
		Long: `Builds a fabric on this machine: a process per switch and host, with veth pairs between them, in anonymous namespaces
that the kernel removes when the program ends. It needs root, or user namespaces.`,
	}
	c.AddCommand(a.liveUpCommand(), liveExecCommand(), a.liveRunCommand(), liveShellCommand(), liveMPICommand(), a.liveStatusCommand(), liveDownCommand(),
		a.liveReactCommand())
	return c
}

// inSandbox calls f in namespaces of the program's own, which it starts itself
// again for if need be. view is as for enterLive.
func inSandbox(ctx context.Context, view string, f func(dir string) error) error {
	dir, ok := live.Inside()
	if ok {
		if err := f(dir); err != nil {
			if keep := os.Getenv("ETHEREAL_LIVE_KEEP"); keep != "" {
				err = errors.Join(err, copyFiles(keep, dir))
			}
			return failedf("%w", err)
		}
		return nil
	}
	return enterLive(ctx, view)
}

// copyFiles copies the plain files of a folder: its sockets are of no use later.
func copyFiles(to, from string) error {
	files, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	errs := []error{os.MkdirAll(to, 0o700)}
	for _, f := range files {
		if f.Type().IsRegular() {
			text, err := os.ReadFile(filepath.Join(from, f.Name()))
			if err == nil {
				err = os.WriteFile(filepath.Join(to, f.Name()), text, 0o600)
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
