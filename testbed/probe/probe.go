// Package probe asks the agents of hosts to send zero-length writes down their paths, and says what each path loses and
// how long it takes. A static path's probes take exactly the way of its data, and of its acknowledgements.
package probe

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/hostproto"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/coordinator"
)

// Path is a path, and the result of probing it.
type Path struct {
	From  string  `json:"from"`
	To    string  `json:"to"`
	Label int     `json:"label"`
	Sent  int     `json:"sent"`
	Lost  int     `json:"lost"`
	Trip  float64 `json:"trip_us"` // mean round-trip time of the answered packets
	Least float64 `json:"least_us"`
}

// String says how many packets were lost, and the mean round-trip time.
func (p Path) String() string {
	switch {
	case p.Lost == p.Sent:
		return "all lost"
	case p.Lost > 0:
		return fmt.Sprintf("%.0f us, %d of %d lost", p.Trip, p.Lost, p.Sent)
	}
	return fmt.Sprintf("%.0f us", p.Trip)
}

// Prober sends path probes: it says which probes to send, and how to reach the hosts' agents.
type Prober struct {
	Fabric  *fabric.Fabric
	Packets int                             // number of probe packets per path, 1 to 64
	Timeout time.Duration                   // a packet that is not answered by then counts as lost; at most 10 s
	To      []fabric.NodeID                 // destinations; none: under each other ToR the host at the sender's position
	Socket  func(host fabric.NodeID) string // path of the UNIX socket of a host's agent
}

// Validate says which number is out of bounds.
func (p *Prober) Validate() error {
	if p.Packets < 1 || p.Packets > 64 || p.Timeout <= 0 || p.Timeout > 10*time.Second {
		return fmt.Errorf("--packets %d, --timeout %v: use 1 to 64 packets, and up to 10s", p.Packets, p.Timeout)
	}
	return nil
}

// maxHostsProbed are asked.
const maxHostsProbed = 64

// Matrix probes the paths from the given hosts.
func (p *Prober) Matrix(ctx context.Context, from []fabric.NodeID) ([]Path, error) {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(maxHostsProbed)
	found := make([][]Path, len(from))
	for i, h := range from {
		g.Go(func() (err error) {
			found[i], err = p.probeHost(ctx, h)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return slices.Concat(found...), nil
}

// destinationsOf returns the hosts to which from's paths are probed. Unless To names them these are hosts in from's own
// place, so that probes of all hosts meet on no host's link.
func (p *Prober) destinationsOf(from fabric.NodeID) []fabric.NodeID {
	if len(p.To) > 0 {
		return p.To
	}
	var dsts []fabric.NodeID
	begin, _ := p.Fabric.HostsOf(p.Fabric.ToROf(from))
	for i := range p.Fabric.ToRs() {
		if first, n := p.Fabric.HostsOf(p.Fabric.ToRID(i)); n > 0 {
			dsts = append(dsts, first+(from-begin)%fabric.NodeID(n))
		}
	}
	return dsts
}

// probeHost makes a host's agent probe its paths, one after the other: concurrent probes would queue behind each other
// at the host.
func (p *Prober) probeHost(ctx context.Context, from fabric.NodeID) (found []Path, err error) {
	agent, err := coordinator.Dial(ctx, p.Socket(from), func(hostproto.Event) {})
	if err != nil {
		return nil, fmt.Errorf("no agent of %s at --socket: %w", p.Fabric.Name(from), err)
	}
	defer agent.Close() //nolint:errcheck // nothing is to be saved
	for _, dst := range p.destinationsOf(from) {
		for _, label := range p.Fabric.PathLabels(p.Fabric.ToROf(from), p.Fabric.ToROf(dst)) {
			path, err := p.probePath(ctx, agent, from, dst, label)
			if err != nil {
				return nil, err
			}
			found = append(found, path)
		}
	}
	return found, nil
}

// probePath probes a path. A probe is sent when the previous one is answered; after a loss the remaining ones are sent
// at once, so that a dead path takes two time-outs.
func (p *Prober) probePath(ctx context.Context, agent *coordinator.Host, from, dst fabric.NodeID, label fabric.Label) (Path, error) {
	y := Path{From: p.Fabric.Name(from), To: p.Fabric.Name(dst), Label: int(label)}
	answered := 0 // of those that Trip is the sum of
	for y.Sent < p.Packets {
		n := 1
		if y.Lost > 0 {
			n = p.Packets - y.Sent
		}
		r, err := p.sendProbes(ctx, agent, hostproto.Probe{
			Dst: int(dst), Label: uint16(label), Packets: n, Timeout: p.Timeout.Nanoseconds(),
		})
		switch {
		case err != nil:
			return y, err
		case r.Host != int(from):
			return y, fmt.Errorf("--socket: that agent is host %d, not %s; name its own --listen-socket", r.Host, y.From)
		case r.Sent != n:
			return y, fmt.Errorf("the agent sent no probe to %s by label %d; is its --fabric the same?", y.To, y.Label)
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
	return y, nil
}

// sendProbes makes an agent send probes, and waits for their results.
func (p *Prober) sendProbes(ctx context.Context, agent *coordinator.Host, q hostproto.Probe) (*hostproto.Probed, error) {
	ctx, cancel := context.WithTimeout(ctx, p.Timeout+10*time.Second)
	defer cancel()
	r, err := agent.Ask(ctx, hostproto.Request{Probe: &q})
	if err == nil && r.Probed == nil {
		err = fmt.Errorf("%+v is no answer", r)
	}
	if err != nil {
		return nil, fmt.Errorf("the agent's probes: %w", err)
	}
	return r.Probed, nil
}
