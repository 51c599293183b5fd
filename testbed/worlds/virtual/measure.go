package virtual

import (
	"encoding/hex"
	"fmt"
	"math"
	"slices"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/p4src"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/sim"
)

// Indices of the P4 program's counter `drops` for packets for which every possible next link was dead; see
// p4src/shared/headers.p4.
const (
	dropDeadDownPath = 2
	dropNoLiveUplink = 3
)

// Headers of a data packet that the bound counts: Ethernet, UDP, BTH, ICRC and IP, without the RETH of a message's
// first packet.
const (
	headerBytes = 14 + 8 + 12 + 4
	ipv4Bytes   = 20
	ipv6Bytes   = 40
	aethBytes   = 4
	rethBytes   = 16
)

// note adds an event to the timeline and the event log.
func (w *world) note(now fabric.Time, kind report.Kind, where, text string) {
	e := report.EventAt(now, kind, where, text)
	w.timeline = append(w.timeline, e)
	w.net.Note(-1, string(kind)+" "+where+" "+text)
	switch kind {
	case report.KindGNMI, report.KindWrite: // each is recorded as it happens
	default:
		w.obs.Report(e)
	}
}

// noteFlip records that a queue pair changed its path.
func (w *world) noteFlip(now fabric.Time, id fabric.NodeID, f hostagent.Flip) {
	if f.Reason != hostagent.Return {
		w.lastFlip = now
	}
	flip := report.FlipEvent{
		Time: now.Micros(), Host: w.f.Name(id), QP: uint32(f.QP),
		From: uint16(f.From), To: uint16(f.To), Reason: f.Reason.String(),
	}
	w.flips = append(w.flips, flip)
	w.obs.Report(flip.Event())
	w.net.Note(id, fmt.Sprintf("flip qp %d from %d to %d by %v", f.QP, f.From, f.To, f.Reason))
}

// measure collects the present result of the run.
func (w *world) measure() (*report.Result, error) {
	r := &report.Result{
		Scenario: w.run.Scenario.Name, Scheme: w.run.Scheme.String(), Collective: w.run.Collective.Name(),
		EqualHashes: w.run.Scenario.Switch.EqualHashes, Notifier: string(w.run.Notifier), Seed: w.run.Seed,
		Failure: w.run.Failure.Name, Bytes: int64(w.run.Collective.Bytes),
		Finished: w.finished, End: report.Deadline, EndTime: w.net.Now().Micros(),
		Fabric: w.f.Spec(), FlipRecords: w.flips, Timeline: w.timeline, Flips: len(w.flips),
	}
	if w.finished {
		cct := w.end.Micros()
		r.CCT, r.End, r.EndTime = &cct, report.Finished, cct
	}
	if w.run.Program != nil {
		bytes, err := w.run.Program.TotalBytes()
		if err != nil {
			return nil, err
		}
		r.Bytes = bytes
	}
	r.Bound, r.StepBound = w.job.bounds()
	r.Steps, r.FastForward = w.job.steps(), w.job.skipped()
	r.BusBandwidth = BusBandwidth(w.run, r.CCT)
	if w.lastFlip >= 0 && w.firstCut >= 0 {
		us := (w.lastFlip - w.firstCut).Micros()
		r.LastFlip = &us
	}
	var flows []report.FlowTime
	for _, h := range w.hosts {
		s := h.nic.Stats()
		r.QPsPerHostMax = max(r.QPsPerHostMax, s.QPsPeak)
		r.Retransmissions += int64(s.Retransmissions)
		r.Timeouts += int64(s.Timeouts)
		r.NAKs += int64(s.NaksTaken)
		r.Quenches += int64(s.Quenches)
		r.Marked += int64(s.CongestionMarks)
		flows = append(flows, h.flows...)
	}
	if w.obs.Flows != nil {
		if err := report.FlowsCSV(w.obs.Flows, flows); err != nil {
			return nil, fmt.Errorf("flows: %w", err)
		}
	}
	r.Flows = report.NewFlows(flows)
	if err := w.measureLinks(r); err != nil {
		return nil, err
	}
	w.measureFailure(r)
	w.measureSpread(r)
	p := w.net.Progress()
	r.PacketHops, r.SimEvents = uint64(p.Hops), uint64(p.Events)
	sum := w.net.EventHash()
	r.EventsSHA256 = hex.EncodeToString(sum[:])
	if w.log != nil {
		if err := w.log.Flush(); err != nil {
			return nil, fmt.Errorf("event log: %w", err)
		}
	}
	return r, nil
}

// BusBandwidth returns the bus bandwidth of a run's collective that took cct; nil: none.
func BusBandwidth(run scenario.Run, cct *float64) *float64 {
	begin := 0.0
	if run.Program != nil {
		return nil
	}
	return report.BusBandwidth(run.CollectiveSpec().BusBytes(), &begin, cct)
}

// measureLinks reads the switches' counters over P4Runtime. Switches do not count what hosts send: the network's
// counts are used.
func (w *world) measureLinks(r *report.Result) error {
	ids := counterIDs()
	cut := map[fabric.LinkID]bool{}
	for _, e := range w.run.Events {
		cut[e.Link] = cut[e.Link] || e.Cuts() && e.At <= w.net.Now()
	}
	r.Links = make([]report.LinkLoad, 2*w.f.Links())
	fill := func(d sim.LinkDir, data, control int64) {
		l := w.f.Link(d.Link())
		from, to := l.A.Node, l.B.Node
		if !d.Up() {
			from, to = to, from
		}
		load := report.LinkLoad{
			Link: w.f.LinkName(l.ID), From: w.f.Name(from), To: w.f.Name(to),
			DataBytes: data, ControlBytes: control, Cut: cut[l.ID],
		}
		if end := fabric.Time(r.EndTime * float64(fabric.Microsecond)); end > 0 {
			c := w.net.Counters(d)
			wire := c.Bytes + (c.DataPackets+c.ControlPackets)*framing(w.run)
			load.Share = float64(l.Rate.TimeFor(wire)) / float64(end)
		}
		r.Links[d] = load
		r.Pauses += w.net.Counters(d).Pauses
	}
	for i := range w.f.HostLinks() {
		d := sim.Upward(fabric.LinkID(i))
		c := w.net.Counters(d)
		control := c.ControlPackets * (headerBytes + ipBytes(w.run) + aethBytes)
		fill(d, c.Bytes-control, control)
	}
	uplinks := 0
	for _, n := range w.switches {
		sw := w.f.Node(n.id)
		data, err := w.readCounter(n, ids["port_tx_data"], sw.Ports())
		if err != nil {
			return err
		}
		control, err := w.readCounter(n, ids["port_tx_control"], sw.Ports())
		if err != nil {
			return err
		}
		for port := fabric.PortNo(1); int(port) <= sw.Ports(); port++ {
			bytes := data[int64(port)].GetByteCount()
			fill(w.net.SendDirection(n.id, port), bytes, control[int64(port)].GetByteCount())
			if sw.Tier == fabric.ToR && port >= sw.FirstUplink() {
				uplinks++
				r.UplinkBytesMax = max(r.UplinkBytesMax, bytes)
				r.UplinkBytesMean += float64(bytes)
			}
		}
		drops, err := w.readCounter(n, ids["drops"], 0)
		if err != nil {
			return err
		}
		for reason, d := range drops {
			if reason == dropDeadDownPath || reason == dropNoLiveUplink {
				r.LostToFailure += d.GetPacketCount()
			} else {
				r.Drops += d.GetPacketCount()
			}
		}
		c := w.net.SwitchCounters(n.id)
		for reason, count := range c.Drops {
			// The program counts its own drops.
			if sim.DropReason(reason) != sim.DropPipeline {
				r.Drops += int64(count)
			}
		}
	}
	r.UplinkBytesMean /= float64(max(uplinks, 1))
	return nil
}

// counterIDs returns the P4Runtime ids of the program's counters.
func counterIDs() map[string]uint32 {
	ids := map[string]uint32{}
	for _, c := range p4src.V1ModelP4Info().GetCounters() {
		ids[c.GetPreamble().GetName()] = c.GetPreamble().GetId()
	}
	return ids
}

// readCounter returns a counter's cells by index: those of ports 1 to the last, or if that is 0 all.
func (w *world) readCounter(n *node, id uint32, last int) (map[int64]*p4.CounterData, error) {
	var asked []*p4.Entity
	add := func(index *p4.Index) {
		asked = append(asked, &p4.Entity{Entity: &p4.Entity_CounterEntry{
			CounterEntry: &p4.CounterEntry{CounterId: id, Index: index},
		}})
	}
	for port := range last {
		add(&p4.Index{Index: int64(port + 1)})
	}
	if last == 0 {
		add(nil)
	}
	entities, err := w.controllers[w.f.Node(n.id).Plane].read(n, asked...)
	if err != nil {
		return nil, err
	}
	cells := make(map[int64]*p4.CounterData, len(entities))
	for _, e := range entities {
		c := e.GetCounterEntry()
		cells[c.GetIndex().GetIndex()] = c.GetData()
	}
	return cells, nil
}

// measureFailure counts the packets lost on cut links and when that began.
func (w *world) measureFailure(r *report.Result) {
	first, where := fabric.Time(math.MaxInt64), ""
	for d := range sim.LinkDir(2 * w.f.Links()) {
		c := w.net.Counters(d)
		r.LostToFailure += c.Lost
		if c.Lost > 0 && c.FirstLost < first {
			first, where = c.FirstLost, w.net.DirName(d)
		}
	}
	if where == "" {
		return
	}
	at, _ := slices.BinarySearchFunc(r.Timeline, first.Micros(), func(e report.Event, t float64) int {
		if e.Time <= t {
			return -1
		}
		return 1
	})
	r.Timeline = slices.Insert(slices.Clone(r.Timeline), at, report.Event{
		Time: first.Micros(), Kind: report.KindFirstHit, Where: where, Text: "first packet lost to the cut",
	})
}
