package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint/hostproto"
)

// probedPath is a path and what became of its probes.
type probedPath struct {
	From  string  `json:"from"`
	To    string  `json:"to"`
	Label int     `json:"label"`
	Sent  int     `json:"sent"`
	Lost  int     `json:"lost"`
	Trip  float64 `json:"trip_us"` // mean of those answered
	Least float64 `json:"least_us"`
}

// newProbeCommand makes `ethereal probe`.
func newProbeCommand() *cobra.Command {
	var (
		file, host, control string
		to                  []string
		packets             int
		timeout             time.Duration
		format              outputFormat
	)
	c := &cobra.Command{
		Use:   "probe",
		Short: "Probe every path from a host: what it loses, and its round trip",
		Long: `Has the running agent of a host send zero-length writes down every path to one host under each other ToR, and shows
what was lost and how long answers took. A static path's probes take exactly the way of its data, and of its acknowledgements.`,
		Example: `  ethereal probe --fabric fabric.yaml --host h0 --control unix:/tmp/h0.sock
  ethereal probe --fabric fabric.yaml --host h0 --control unix:/tmp/h0.sock --to h9 --packets 64 -o json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			spec, err := fabric.LoadSpec(file)
			if err != nil {
				return err
			}
			f, err := fabric.New(spec)
			if err != nil {
				return err
			}
			from, err := hostOf(f, host)
			if err != nil {
				return err
			}
			paths, err := pathsToProbe(f, from, to)
			if err != nil {
				return err
			}
			p := &prober{packets: packets, timeout: timeout}
			if err := p.run(c.Context(), control, f, from, paths); err != nil {
				return err
			}
			if !format.people() {
				return format.write(c.OutOrStdout(), p.found)
			}
			return writeProbed(c.OutOrStdout(), p.found)
		},
	}
	fl := c.Flags()
	fl.StringVar(&file, "fabric", "", "read the fabric from `FILE`, as `ethereal topo` prints it")
	fl.StringVar(&host, "host", "", "`HOST` whose agent is asked: its name or its rank")
	fl.StringVar(&control, "control", "", "where that agent is driven: unix:`PATH`, its own --control")
	fl.StringArrayVar(&to, "to", nil, "probe the paths to this `HOST`; may be given again. Default: the first under every other ToR")
	fl.IntVar(&packets, "packets", 16, "`NUMBER` of probes of each path, 1 to 64")
	fl.DurationVar(&timeout, "timeout", 200*time.Millisecond, "a probe that is not answered within this `TIME` is lost; at most 10s")
	for _, name := range []string{"fabric", "host", "control"} {
		if err := c.MarkFlagRequired(name); err != nil {
			panic(err) // the flag was just defined
		}
	}
	format.register(c)
	return c
}

// path is a path by its end and its label.
type path struct {
	dst   fabric.NodeID
	label fabric.Label
}

// pathsToProbe returns all paths to some hosts, or to one under every other ToR.
func pathsToProbe(f *fabric.Fabric, from fabric.NodeID, to []string) (paths []path, err error) {
	var dsts []fabric.NodeID
	for _, name := range to {
		id, err := hostOf(f, name)
		if err != nil {
			return nil, fmt.Errorf("--to: %w", err)
		}
		dsts = append(dsts, id)
	}
	for i := range f.ToRs() {
		if first, _ := f.HostsOf(f.ToRID(i)); len(to) == 0 {
			dsts = append(dsts, first)
		}
	}
	for _, d := range dsts {
		for _, l := range f.PathLabels(f.ToROf(from), f.ToROf(d)) {
			paths = append(paths, path{d, l})
		}
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("--to: %s and %s share a ToR, and no path is to be chosen; name a host under another", f.Name(from), strings.Join(to, ", "))
	}
	return paths, nil
}

// prober asks one agent.
type prober struct {
	packets int
	timeout time.Duration
	found   []probedPath
}

// probesAtATime are under way at one agent, which takes at most 64.
const probesAtATime = 16

func (p *prober) run(ctx context.Context, control string, f *fabric.Fabric, from fabric.NodeID, paths []path) error {
	if p.packets < 1 || p.packets > 64 || p.timeout <= 0 || p.timeout > 10*time.Second {
		return fmt.Errorf("--packets %d, --timeout %v: use 1 to 64 packets, and up to 10s", p.packets, p.timeout)
	}
	at, ok := strings.CutPrefix(control, "unix:")
	if !ok {
		return fmt.Errorf("--control: %q is not unix:PATH", control)
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", strings.TrimPrefix(at, "//"))
	if err != nil {
		return fmt.Errorf("%w: no agent at --control: %w", errRun, err)
	}
	defer conn.Close()                                      //nolint:errcheck // nothing is to be saved
	stop := context.AfterFunc(ctx, func() { conn.Close() }) //nolint:errcheck // the reader sees it
	defer stop()
	enc, lines := json.NewEncoder(conn), bufio.NewScanner(conn)
	p.found = make([]probedPath, len(paths))
	for first := 0; first < len(paths); first += probesAtATime {
		some := paths[first:min(first+probesAtATime, len(paths))]
		for i, x := range some {
			q := hostproto.Request{Seq: uint64(first + i + 1), Probe: &hostproto.Probe{
				Dst: int(x.dst), Label: uint16(x.label), Packets: p.packets, Timeout: p.timeout.Nanoseconds(),
			}}
			if err := enc.Encode(q); err != nil {
				return fmt.Errorf("%w: the agent does not listen: %w", errRun, err)
			}
		}
		if err := conn.SetReadDeadline(time.Now().Add(p.timeout + 10*time.Second)); err != nil {
			return fmt.Errorf("%w: %w", errRun, err)
		}
		for left := len(some); left > 0; {
			var r hostproto.Reply
			if !lines.Scan() {
				return fmt.Errorf("%w: the agent does not answer: %w", errRun, cmp.Or(lines.Err(), io.EOF))
			}
			if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
				return fmt.Errorf("%w: the agent's answer is not understood: %w", errRun, err)
			}
			i := int(r.Seq) - 1
			switch {
			case r.Error != "":
				return fmt.Errorf("%w: the agent says: %s", errRun, r.Error)
			case r.Probed == nil || i < first || i >= first+len(some):
				continue
			case r.Probed.Host != int(from):
				return fmt.Errorf("--control: that agent is host %d, not %s; name its own --control", r.Probed.Host, f.Name(from))
			case r.Probed.Sent == 0:
				return fmt.Errorf("%w: the agent sent no probe to %s by label %d; is its --fabric the same?", errRun, f.Name(paths[i].dst), paths[i].label)
			}
			p.found[i] = probedPath{
				From: f.Name(from), To: f.Name(paths[i].dst), Label: int(paths[i].label), Sent: r.Probed.Sent, Lost: r.Probed.Lost,
				Trip: float64(r.Probed.Trip) / 1e3, Least: float64(r.Probed.Least) / 1e3,
			}
			left--
		}
	}
	return nil
}

// writeProbed prints a matrix: a line for every host, a column for every label.
func writeProbed(w io.Writer, found []probedPath) error {
	var labels []int
	for _, p := range found {
		if i, ok := slices.BinarySearch(labels, p.Label); !ok {
			labels = slices.Insert(labels, i, p.Label)
		}
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "from %s to", found[0].From) //nolint:errcheck // Flush tells
	for _, l := range labels {
		fmt.Fprintf(t, "\tlabel %d", l) //nolint:errcheck
	}
	for i := 0; i < len(found); {
		to := found[i].To
		fmt.Fprintf(t, "\n%s", to) //nolint:errcheck
		for _, l := range labels {
			switch {
			case i == len(found) || found[i].To != to || found[i].Label != l:
				fmt.Fprint(t, "\t-") //nolint:errcheck
				continue
			case found[i].Lost == found[i].Sent:
				fmt.Fprint(t, "\tall lost") //nolint:errcheck
			case found[i].Lost > 0:
				fmt.Fprintf(t, "\t%.0f us, %d of %d lost", found[i].Trip, found[i].Lost, found[i].Sent) //nolint:errcheck
			default:
				fmt.Fprintf(t, "\t%.0f us", found[i].Trip) //nolint:errcheck
			}
			i++
		}
	}
	fmt.Fprintln(t) //nolint:errcheck
	return t.Flush()
}
