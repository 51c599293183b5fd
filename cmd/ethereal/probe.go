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
	"golang.org/x/sync/errgroup"

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
		file, control string
		hosts, to     []string
		p             prober
		format        outputFormat
	)
	c := &cobra.Command{
		Use:   "probe",
		Short: "Probe every path from a host, or from all: what it loses, and its round trip",
		Long: `Has the running agents of hosts send zero-length writes down every path to the host in their own place under
each other ToR, and shows what was lost and how long answers took. A static path's probes take exactly the way of its data,
and of its acknowledgements.`,
		Example: `  ethereal probe --fabric fabric.yaml --control 'unix:/run/ethereal/{host}.sock'
  ethereal probe --fabric fabric.yaml --host h0 --control unix:/run/ethereal/h0.sock --to h9 --packets 64 -o json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			spec, err := fabric.LoadSpec(file)
			if err != nil {
				return err
			}
			f, err := fabric.NewSinglePlane(spec, "ethereal probe")
			if err != nil {
				return err
			}
			from, err := hostsOf(f, hosts, control)
			if err != nil {
				return err
			}
			found, err := p.matrix(c.Context(), f, from, to, control)
			if err != nil {
				return err
			}
			if len(found) == 0 {
				return fmt.Errorf("--to: %s and %s share a ToR, and no path is to be chosen; name a host under another",
					cmp.Or(strings.Join(hosts, ", "), "all hosts"), strings.Join(to, ", "))
			}
			if !format.people() {
				return format.write(c.OutOrStdout(), found)
			}
			return writeProbed(c.OutOrStdout(), found)
		},
	}
	fl := c.Flags()
	fl.StringVar(&file, "fabric", "", "read the fabric from `FILE`, as `ethereal topo` prints it")
	fl.StringArrayVar(&hosts, "host", nil,
		"`HOST` whose agent is asked: its name or its rank; may be given again. Default: all")
	fl.StringVar(&control, "control", "",
		"where agents are driven: unix:`PATH`, their own --control; {host} in it is the host's name")
	fl.StringArrayVar(&to, "to", nil,
		"probe the paths to this `HOST`; may be given again. Default: under every other ToR the one in the asked host's own place")
	fl.IntVar(&p.packets, "packets", 16, "`NUMBER` of probes of each path, 1 to 64")
	fl.DurationVar(&p.timeout, "timeout", 200*time.Millisecond,
		"a probe that is not answered within this `TIME` is lost; at most 10s")
	for _, name := range []string{"fabric", "control"} {
		if err := c.MarkFlagRequired(name); err != nil {
			panic(err) // the flag was just defined
		}
	}
	format.register(c)
	return c
}

// hostPlace stands for a host's name in --control.
const hostPlace = "{host}"

// hostsOf returns the hosts named, or all.
func hostsOf(f *fabric.Fabric, names []string, control string) (ids []fabric.NodeID, err error) {
	for _, name := range names {
		id, err := hostOf(f, name)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	if len(names) == 0 {
		for h := range f.Hosts() {
			ids = append(ids, fabric.NodeID(h))
		}
	}
	if len(ids) > 1 && !strings.Contains(control, hostPlace) {
		return nil, fmt.Errorf("--control: %q is the agent of one host; write %s for its name, or give one --host",
			control, hostPlace)
	}
	return ids, nil
}

// path is a path by its end and its label.
type path struct {
	dst   fabric.NodeID
	label fabric.Label
}

// pathsToProbe returns all paths to some hosts, or to one under every other ToR: that in
// from's place, so that probes of all hosts meet on no host's link.
func pathsToProbe(f *fabric.Fabric, from fabric.NodeID, to []string) (paths []path, err error) {
	var dsts []fabric.NodeID
	for _, name := range to {
		id, err := hostOf(f, name)
		if err != nil {
			return nil, fmt.Errorf("--to: %w", err)
		}
		dsts = append(dsts, id)
	}
	own := f.ToROf(from)
	begin, _ := f.HostsOf(own)
	for i := range f.ToRs() {
		if first, n := f.HostsOf(f.ToRID(i)); len(to) == 0 && n > 0 {
			dsts = append(dsts, first+(from-begin)%fabric.NodeID(n))
		}
	}
	for _, d := range dsts {
		for _, l := range f.PathLabels(own, f.ToROf(d)) {
			paths = append(paths, path{d, l})
		}
	}
	return paths, nil
}

// prober asks agents.
type prober struct {
	packets int
	timeout time.Duration
}

// hostsAtATime are asked.
const hostsAtATime = 64

// matrix probes the paths of all hosts given, each host's one after the other: probes
// that wait for each other at their host would not tell a path's round trip.
func (p *prober) matrix(
	ctx context.Context, f *fabric.Fabric, from []fabric.NodeID, to []string, control string,
) ([]probedPath, error) {
	if p.packets < 1 || p.packets > 64 || p.timeout <= 0 || p.timeout > 10*time.Second {
		return nil, fmt.Errorf("--packets %d, --timeout %v: use 1 to 64 packets, and up to 10s", p.packets, p.timeout)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(hostsAtATime)
	found := make([][]probedPath, len(from))
	for i, h := range from {
		paths, err := pathsToProbe(f, h, to)
		if err != nil {
			return nil, err
		}
		g.Go(func() (err error) {
			found[i], err = p.ask(ctx, f, h, paths, strings.ReplaceAll(control, hostPlace, f.Name(h)))
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return slices.Concat(found...), nil
}

// probedAgent is an agent that is asked.
type probedAgent struct {
	conn  net.Conn
	lines *bufio.Scanner
	seq   uint64
	stop  func() bool
}

func dialAgent(ctx context.Context, control string) (*probedAgent, error) {
	at, ok := strings.CutPrefix(control, "unix:")
	if !ok {
		return nil, fmt.Errorf("--control: %q is not unix:PATH", control)
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", strings.TrimPrefix(at, "//"))
	if err != nil {
		return nil, fmt.Errorf("%w: no agent at --control: %w", errRun, err)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() }) //nolint:errcheck // the reader sees it
	return &probedAgent{conn: conn, lines: bufio.NewScanner(conn), stop: stop}, nil
}

func (a *probedAgent) close() {
	a.stop()
	a.conn.Close() //nolint:errcheck // nothing is to be saved
}

// ask has the agent send probes, and waits for what becomes of them.
func (a *probedAgent) ask(q hostproto.Probe) (*hostproto.Probed, error) {
	a.seq++
	if err := a.conn.SetDeadline(time.Now().Add(time.Duration(q.Timeout) + 10*time.Second)); err != nil {
		return nil, fmt.Errorf("%w: %w", errRun, err)
	}
	if err := json.NewEncoder(a.conn).Encode(hostproto.Request{Seq: a.seq, Probe: &q}); err != nil {
		return nil, fmt.Errorf("%w: the agent does not listen: %w", errRun, err)
	}
	for a.lines.Scan() {
		var r hostproto.Reply
		switch err := json.Unmarshal(a.lines.Bytes(), &r); {
		case err != nil:
			return nil, fmt.Errorf("%w: the agent's answer is not understood: %w", errRun, err)
		case r.Error != "":
			return nil, fmt.Errorf("%w: the agent says: %s", errRun, r.Error)
		case r.Probed != nil && r.Seq == a.seq:
			return r.Probed, nil
		}
	}
	return nil, fmt.Errorf("%w: the agent does not answer: %w", errRun, cmp.Or(a.lines.Err(), io.EOF))
}

// ask has a host's agent probe paths. A probe is sent when the one before is answered;
// when one is lost the rest of its path's are sent at once, so that a dead path takes two
// timeouts.
func (p *prober) ask(
	ctx context.Context, f *fabric.Fabric, from fabric.NodeID, paths []path, control string,
) (found []probedPath, err error) {
	a, err := dialAgent(ctx, control)
	if err != nil {
		return nil, err
	}
	defer a.close()
	for _, x := range paths {
		y := probedPath{From: f.Name(from), To: f.Name(x.dst), Label: int(x.label)}
		answered := 0 // of those that Trip is the sum of
		for y.Sent < p.packets {
			n := 1
			if y.Lost > 0 {
				n = p.packets - y.Sent
			}
			r, err := a.ask(hostproto.Probe{Dst: int(x.dst), Label: uint16(x.label), Packets: n, Timeout: p.timeout.Nanoseconds()})
			switch {
			case err != nil:
				return nil, err
			case r.Host != int(from):
				return nil, fmt.Errorf("--control: that agent is host %d, not %s; name its own --control", r.Host, f.Name(from))
			case r.Sent != n:
				return nil, fmt.Errorf("%w: the agent sent no probe to %s by label %d; is its --fabric the same?", errRun, y.To, y.Label)
			}
			y.Sent, y.Lost = y.Sent+n, y.Lost+r.Lost
			if got := n - r.Lost; got > 0 && (n == 1 || answered == 0) {
				y.Trip, answered = y.Trip+float64(got)*float64(r.Trip)/1e3, answered+got
				if least := float64(r.Least) / 1e3; y.Least == 0 || least < y.Least {
					y.Least = least
				}
			}
		}
		y.Trip /= float64(max(1, answered))
		found = append(found, y)
	}
	return found, nil
}

// writeProbed prints a matrix: a line for every two hosts, a column for every label, and
// what it comes to.
func writeProbed(w io.Writer, found []probedPath) error {
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
	fmt.Fprint(t, "from\tto") //nolint:errcheck // Flush tells
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

func (p probedPath) String() string {
	switch {
	case p.Lost == p.Sent:
		return "all lost"
	case p.Lost > 0:
		return fmt.Sprintf("%.0f us, %d of %d lost", p.Trip, p.Lost, p.Sent)
	}
	return fmt.Sprintf("%.0f us", p.Trip)
}
