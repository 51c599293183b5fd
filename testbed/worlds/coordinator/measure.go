package coordinator

import (
	"cmp"
	"context"
	"encoding/hex"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/deployment"
	"github.com/ethereal-fabric/ethereal/testbed/hostproto"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/sim"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/virtual"
)

// count reads all switches' counters.
func (r *sessionRun) count(ctx context.Context) ([]deployment.Counted, error) {
	if r.opt.Counters == nil {
		return nil, nil
	}
	return r.opt.Counters(ctx)
}

// micros converts a time stamp to a time in the run.
func (r *sessionRun) micros(at int64) float64 { return float64(at-r.start) / 1000 }

// measure makes the result of a run.
func (r *sessionRun) measure(ctx context.Context, before []deployment.Counted, end int64, finished, interrupted bool) (*report.Result, error) {
	stats, err := r.s.Stats(ctx)
	if err != nil {
		return nil, err
	}
	after, err := r.count(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.s.readClocksAgain(ctx, r.opt.Clock); err != nil {
		return nil, err
	}
	if finished {
		for _, at := range r.s.ledger.done {
			end = max(end, at)
		}
	}
	run := r.run
	out := &report.Result{
		Scenario: run.Scenario.Name, Scheme: run.Scheme.String(), Collective: run.Collective.Name(),
		EqualHashes: run.Scenario.Switch.EqualHashes, Notifier: string(run.Notifier), Seed: run.Seed, Failure: run.Failure.Name, Bytes: int64(run.Collective.Bytes),
		Finished: finished, End: report.Deadline, EndTime: max(0, r.micros(end)), Fabric: run.Fabric.Spec(),
	}
	switch {
	case interrupted:
		out.End = report.Interrupted
	case finished:
		cct := r.micros(end)
		out.CCT, out.End = &cct, report.Finished
	}
	if r.job != nil {
		if err := r.bounds(out); err != nil {
			return nil, err
		}
	}
	lost := r.addHosts(out, stats)
	r.addLinks(out, stats, before, after)
	if len(r.opt.Acts) > 0 {
		out.LostToFailure = max(0, lost-out.Drops)
	} else {
		out.Drops = max(out.Drops, lost)
	}
	r.addTimeline(out)
	r.addClocks(out)
	sum := r.s.hash.Sum(nil)
	out.EventsSHA256 = hex.EncodeToString(sum)
	return out, nil
}

// bounds adds the lower bounds of a collective. Links change when the machine gets to it, so they are computed for the
// actual events, not the planned ones.
func (r *sessionRun) bounds(out *report.Result) (err error) {
	bounded := r.run
	bounded.Events = r.happened
	slices.SortStableFunc(bounded.Events, func(a, b scenario.LinkEvent) int { return cmp.Compare(a.At, b.At) })
	if r.opt.Unshaped {
		if bounded.Fabric, err = withUnlimitedCore(r.run.Fabric); err != nil {
			return err
		}
	}
	out.Bound, out.StepBound = virtual.Bounds(bounded, r.job)
	out.BusBandwidth = virtual.BusBandwidth(r.run, out.CCT)
	return nil
}

// withUnlimitedCore returns a fabric whose links between switches never limit: each can carry what all hosts together
// send.
func withUnlimitedCore(f *fabric.Fabric) (*fabric.Fabric, error) {
	spec := f.Spec()
	spec.ToRUplink.Rate = min(spec.HostLink.Rate*fabric.Rate(f.Hosts()), fabric.MaxRate)
	if f.ThreeTier() {
		spec.AggUplink.Rate = spec.ToRUplink.Rate
	}
	return fabric.New(spec)
}

// addHosts adds the hosts' counts. It returns the number of their packets that did not arrive.
func (r *sessionRun) addHosts(out *report.Result, stats []*hostproto.Stats) (lost int64) {
	for _, s := range stats {
		out.QPsPerHostMax = max(out.QPsPerHostMax, s.QPsPeak)
		out.Retransmissions += int64(s.Retransmissions)
		out.Timeouts += int64(s.Timeouts)
		out.NAKs += int64(s.NaksTaken)
		out.Quenches += int64(s.Quenches)
		out.Marked += int64(s.CongestionMarks)
		lost += int64(s.FramesOut) - int64(s.FramesIn)
	}
	return max(0, lost)
}

// Reasons of the P4 program's counter drops that mean that every possible next link was dead.
const (
	dropDeadDownPath = 2
	dropNoLiveUplink = 3
)

// addLinks adds the loads of all links, in both directions.
func (r *sessionRun) addLinks(out *report.Result, stats []*hostproto.Stats, before, after []deployment.Counted) {
	f := r.run.Fabric
	out.Links = make([]report.LinkLoad, 2*f.Links())
	fill := func(node fabric.NodeID, port fabric.PortNo, data, ctl deployment.Cell) {
		l := f.Link(f.Node(node).Link(port))
		d := sim.Upward(l.ID)
		if l.B.Node == node {
			d = sim.Downward(l.ID)
		}
		load := report.LinkLoad{
			Link: f.LinkName(l.ID), From: f.Name(node), To: f.Name(l.Peer(node).Node),
			DataBytes: data.Bytes, ControlBytes: ctl.Bytes, Cut: r.cut[l.ID],
		}
		if end := fabric.Time(out.EndTime * float64(fabric.Microsecond)); end > 0 {
			wire := data.Bytes + ctl.Bytes + (data.Packets+ctl.Packets)*fabric.FrameOverhead
			load.Share = min(1, float64(l.Rate.TimeFor(wire))/float64(end))
		}
		out.Links[d] = load
	}
	for h, s := range stats {
		data := deployment.Cell{Packets: int64(s.DataSent), Bytes: int64(s.OtherBytes)}
		for _, b := range s.LabelBytes {
			data.Bytes += int64(b)
		}
		fill(fabric.NodeID(h), 1, data, deployment.Cell{Packets: int64(s.ControlSent), Bytes: int64(s.BytesOut) - data.Bytes})
	}
	uplinks := 0
	for i := range f.Switches() {
		id := fabric.NodeID(f.Hosts() + i)
		var c deployment.Counted
		if after != nil {
			c = after[i].Since(before[i])
		}
		sw := f.Node(id)
		for port := fabric.PortNo(1); int(port) <= sw.Ports(); port++ {
			data, ctl := c[deployment.CounterData][int64(port)], c[deployment.CounterControl][int64(port)]
			fill(id, port, data, ctl)
			out.PacketHops += uint64(data.Packets + ctl.Packets)
			if sw.Tier == fabric.ToR && port >= sw.FirstUplink() {
				uplinks++
				out.UplinkBytesMax = max(out.UplinkBytesMax, data.Bytes)
				out.UplinkBytesMean += float64(data.Bytes)
			}
		}
		for reason, d := range c[deployment.CounterDrops] {
			if reason != dropDeadDownPath && reason != dropNoLiveUplink {
				out.Drops += d.Packets
			}
		}
	}
	out.UplinkBytesMean /= float64(max(uplinks, 1))
}

// addTimeline adds the events.
func (r *sessionRun) addTimeline(out *report.Result) {
	f, l := r.run.Fabric, r.s.ledger
	events := slices.Clone(r.cuts)
	add := func(at int64, kind report.Kind, where, text string) {
		events = append(events, report.Event{Time: r.micros(at), Kind: kind, Where: where, Text: text})
	}
	first := func(hs []hostEvent, kind report.Kind, text string) {
		seen := map[int]bool{}
		for _, h := range hs {
			if !seen[h.Rank] && h.At >= r.start {
				seen[h.Rank] = true
				add(h.At, kind, f.Name(fabric.NodeID(h.Rank)), text)
			}
		}
	}
	first(l.timeouts, report.KindTimeout, "first retransmission time-out of this host")
	first(l.quenches, report.KindQuench, "first source quench of this host")
	for _, at := range l.updates(r.start) {
		add(at, report.KindPush, "agents", "link states pushed")
	}
	for rank, at := range l.done {
		add(at, report.KindDone, f.Name(fabric.NodeID(rank)), "rank finished")
	}
	byTime := func(a, b report.Event) int { return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Where, b.Where)) }
	slices.SortFunc(events, byTime)
	out.Timeline = events

	last := int64(0)
	for _, h := range l.flips {
		out.FlipRecords = append(out.FlipRecords, report.FlipEvent{
			Time: r.micros(h.At), Host: f.Name(fabric.NodeID(h.Rank)), QP: h.QP, From: h.From, To: h.To, Reason: h.Reason,
		})
		if h.Reason != "return" {
			last = max(last, h.At)
		}
	}
	slices.SortStableFunc(out.FlipRecords, func(a, b report.FlipEvent) int { return cmp.Compare(a.Time, b.Time) })
	out.Flips = len(out.FlipRecords)
	if last > 0 && r.cutAt > 0 {
		us := float64(last-r.cutAt) / 1000
		out.LastFlip = &us
	}
}
