package main

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/containerlab"
)

// exportFlags are the flags of `ethereal export containerlab`.
type exportFlags struct {
	fabric, dir, name, image string
	addresses                []string
	mtu                      int
}

func (a *app) exportContainerlabCommand() *cobra.Command {
	var flags exportFlags
	c := &cobra.Command{
		Use:   "containerlab --fabric FILE --dir DIR --address A,B",
		Short: "Write a fabric as containerlab topologies, one for each machine",
		Long: `Writes a topology for each machine: switches and hosts are containers of the program's image, with the controller on the
first machine. Pods, or ToRs in a fabric of two tiers, stay on one machine; links between machines are VXLAN tunnels. The
folder also gets fabric.yaml, targets.yaml and the arguments of scripts/lab-ca for all certificates.`,
		Example: `  ethereal export containerlab --fabric fabric.yaml --dir lab --address 192.0.2.1,192.0.2.2
  xargs scripts/lab-ca lab/certs < lab/certificates`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return a.exportContainerlab(flags) },
	}
	f := c.Flags()
	f.StringVar(&flags.fabric, "fabric", "", "read the fabric from `FILE`, as `ethereal topo` prints it")
	f.StringVar(&flags.dir, "dir", "", "use the folder `DIR`; the files are written there")
	f.StringVar(&flags.name, "name", "ethereal", "name the topologies `NAME`")
	f.StringSliceVar(&flags.addresses, "address", nil, "divide the fabric among the machines at `ADDRESSES`, A,B")
	f.StringVar(&flags.image, "image", "ethereal", "use the container `IMAGE`, made with scripts/dist/Containerfile")
	f.IntVar(&flags.mtu, "mtu", 1450, "MTU of the interfaces, `BYTES`; 50 less than the MTU between the machines, because of the tunnels' headers")
	return c
}

func (a *app) exportContainerlab(flags exportFlags) error {
	if flags.fabric == "" || flags.dir == "" || len(flags.addresses) == 0 {
		return errors.New("write --fabric, --dir and --address; `ethereal topo` prints a fabric")
	}
	if flags.mtu < 576 || flags.mtu > 9500 {
		return fmt.Errorf("--mtu: %d; write 576 to 9500", flags.mtu)
	}
	if flags.name == "" || flags.name != fileName(flags.name) {
		return fmt.Errorf("--name: %q; write letters, digits, dots and dashes", flags.name)
	}
	spec, err := fabric.LoadSpec(flags.fabric)
	if err != nil {
		return err
	}
	f, err := fabric.NewSinglePlane(spec, "ethereal export")
	if err != nil {
		return err
	}
	c := containerlab.Config{Fabric: f, Name: flags.name, Image: flags.image, MTU: flags.mtu}
	for _, text := range flags.addresses {
		addr, err := netip.ParseAddr(strings.TrimSpace(text))
		if err != nil {
			return fmt.Errorf("--address: %w", err)
		}
		c.Addresses = append(c.Addresses, addr)
	}
	at, crossing, err := c.Write(flags.dir)
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	nodes := make([]int, len(c.Addresses))
	for _, m := range at {
		nodes[m]++
	}
	for m, addr := range c.Addresses {
		fmt.Fprintf(a.stderr, "%s: %d nodes, on %v\n", filepath.Join(flags.dir, fmt.Sprintf("%s-%d.clab.yml", flags.name, m)), nodes[m], addr)
	}
	fmt.Fprintf(a.stderr, "%d of %d links cross\n", crossing, f.Links())
	return nil
}
