package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/deployment"
	"github.com/ethereal-fabric/ethereal/testbed/probe"
)

// newProbeCommand makes `ethereal probe`.
func newProbeCommand() *cobra.Command {
	var (
		file, socket string
		hosts, to    []string
		p            probe.Prober
		format       outputFormat
	)
	c := &cobra.Command{
		Use:   "probe",
		Short: "Measure loss and round trip of every path",
		Long: `Asks the running agents of hosts to send zero-length RDMA WRITEs on every path to one host under each other ToR, and prints
the lost probes and the round-trip times. Probes take exactly the path of data with the same label, and their answers that
of its acknowledgements.`,
		Example: `  ethereal probe --fabric fabric.yaml --socket 'unix:/run/ethereal/{host}.sock'
  ethereal probe --fabric fabric.yaml --from h0 --socket unix:/run/ethereal/h0.sock --to h9 --packets 64 -o json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var up *deployment.File
			if file == "" && socket == "" {
				var err error
				if up, err = fabricUp(); err != nil {
					return err
				}
				if up == nil {
					return errors.New("name --fabric and --socket; ethereal live up starts a fabric that is found without them")
				}
				file = up.Fabric
			}
			spec, err := fabric.LoadSpec(file)
			if err != nil {
				return err
			}
			f, err := fabric.NewSinglePlane(spec, "ethereal probe")
			if err != nil {
				return err
			}
			from, err := hostsOf(f, "--from", hosts)
			if err != nil {
				return err
			}
			if p.To, err = hostsOf(f, "--to", to); err != nil {
				return err
			}
			for h := 0; len(hosts) == 0 && h < f.Hosts(); h++ {
				from = append(from, fabric.NodeID(h))
			}
			p.Fabric = f
			if p.Socket, err = agentSockets(f, up, socket, len(from)); err != nil {
				return err
			}
			if err := p.Validate(); err != nil {
				return err
			}
			found, err := p.Matrix(c.Context(), from)
			if err != nil {
				return failedf("%w", err)
			}
			if len(found) == 0 {
				return fmt.Errorf("--to: %s and %s share a ToR, and no path is to be chosen; name a host under another",
					cmp.Or(strings.Join(hosts, ", "), "all hosts"), strings.Join(to, ", "))
			}
			if !format.forPeople() {
				return format.write(c.OutOrStdout(), found)
			}
			return writeProbed(c.OutOrStdout(), found)
		},
	}
	fl := c.Flags()
	fl.StringVar(&file, "fabric", "", "read the fabric from `FILE`, as `ethereal topo` prints it")
	fl.StringArrayVar(&hosts, "from", nil, "probe from `HOST`, a name or a rank; may be given again (default: all)")
	fl.StringVar(&socket, "socket", "", "reach agents by their --listen-socket, `unix:PATH`; {host} in PATH stands for the host's name")
	fl.StringArrayVar(&to, "to", nil,
		"probe to `HOST`, a name or a rank; may be given again (default: under every other ToR the one in the same place)")
	fl.IntVar(&p.Packets, "packets", 16, "send `N` probes on each path, 1 to 64")
	fl.DurationVar(&p.Timeout, "timeout", 200*time.Millisecond,
		"wait for `DURATION` at most; then a probe is lost; at most 10s")
	format.register(c)
	return c
}

// hostPlaceholder stands for a host's name in --socket.
const hostPlaceholder = "{host}"

// agentSockets returns where hosts' agents are: as the fabric that is up says, or else as --socket does.
func agentSockets(f *fabric.Fabric, up *deployment.File, socket string, hosts int) (func(fabric.NodeID) string, error) {
	if up != nil {
		if len(up.Hosts) != f.Hosts() {
			return nil, fmt.Errorf("%s: %d hosts, and %d sockets in the deployment of it", up.Fabric, f.Hosts(), len(up.Hosts))
		}
		return func(h fabric.NodeID) string { return up.Hosts[h] }, nil
	}
	if hosts > 1 && !strings.Contains(socket, hostPlaceholder) {
		return nil, fmt.Errorf("--socket: %q is the agent of one host; write %s for its name, or give one --from", socket, hostPlaceholder)
	}
	at, ok := strings.CutPrefix(socket, "unix:")
	if !ok {
		return nil, fmt.Errorf("--socket: %q is not unix:PATH", socket)
	}
	return func(h fabric.NodeID) string {
		return strings.ReplaceAll(strings.TrimPrefix(at, "//"), hostPlaceholder, f.Name(h))
	}, nil
}

// hostsOf returns the hosts named by a flag.
func hostsOf(f *fabric.Fabric, flag string, names []string) (ids []fabric.NodeID, err error) {
	for _, name := range names {
		id, err := hostOf(f, flag, name)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// writeProbed prints a matrix: a line for every two hosts, a column for every label, and
// what it comes to.
func writeProbed(w io.Writer, found []probe.Path) error {
	var labels []int
	lossy, dead := 0, 0
	for _, p := range found {
		if i, ok := slices.BinarySearch(labels, p.Label); !ok {
			labels = slices.Insert(labels, i, p.Label)
		}
		switch {
		case p.Lost == p.Sent:
			dead++
		case p.Lost > 0:
			lossy++
		}
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "from\tto") //nolint:errcheck // Flush reports
	for _, l := range labels {
		fmt.Fprintf(t, "\tlabel %d", l) //nolint:errcheck
	}
	for i := 0; i < len(found); {
		from, to := found[i].From, found[i].To
		fmt.Fprintf(t, "\n%s\t%s", from, to) //nolint:errcheck
		for _, l := range labels {
			if i == len(found) || found[i].From != from || found[i].To != to || found[i].Label != l {
				fmt.Fprint(t, "\t-") //nolint:errcheck
				continue
			}
			fmt.Fprintf(t, "\t%s", found[i]) //nolint:errcheck
			i++
		}
	}
	fmt.Fprintf(t, "\n%d paths: %d answer nothing, %d lose some\n", len(found), dead, lossy) //nolint:errcheck
	return t.Flush()
}
