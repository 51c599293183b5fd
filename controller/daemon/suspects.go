package daemon

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/ethereal-fabric/ethereal/controller/eventlog"
	"github.com/ethereal-fabric/ethereal/controller/observe"
	"github.com/ethereal-fabric/ethereal/controller/suspicion"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
)

// agentReported processes an agent's reports of paths that timed out and of probes.
func (d *Daemon) agentReported(host fabric.NodeID, r *statepb.Report) {
	now := d.clock()
	for _, s := range r.GetSuspicions() {
		x := suspicion.Report{
			Host: host, DstToR: observe.NodeID(s.GetDstTor()), Dst: suspicion.NoHost,
			Label: fabric.Label(min(s.GetLabel(), 1<<16-1)), Timeouts: int(s.GetTimeouts()),
		}
		if s.Dst != nil {
			x.Dst = observe.NodeID(s.GetDst())
		}
		if err := d.core.Report(now, x); err != nil {
			d.badReports.Warn("report", "host", d.f.Name(host), "err", err)
			continue
		}
		d.cfg.Events.Add(eventlog.Record{
			Time: time.Now(), Kind: "report", Host: d.f.Name(host), To: d.f.Name(x.DstToR), Label: int(x.Label), Count: x.Timeouts,
		})
	}
	for _, p := range r.GetProbes() {
		path, ok := d.core.ProbeResult(now, host, p.GetId(), int(min(p.GetSent(), 1<<20)), int(min(p.GetLost(), 1<<20)))
		if ok {
			d.paths.Store(path, time.Now(), p)
		}
	}
	d.largest.Store(d.f, host, time.Now(), r)
	if fs := r.GetFlips(); len(fs) > 0 {
		count := len(fs) + int(min(r.GetFlipsLeft(), 1<<20))
		d.flips += uint64(count)
		d.cfg.Events.Add(eventlog.Record{Time: time.Now(), Kind: "flip", Host: d.f.Name(host), State: flipsText(fs, count), Count: count})
	}
}

// maxFlipsLogged is the number of a report's flips that the event log names.
const maxFlipsLogged = 3

// flipsText describes an agent's flips.
func flipsText(fs []*statepb.Flip, count int) string {
	var parts []string
	for _, f := range fs[:min(maxFlipsLogged, len(fs))] {
		reason := f.GetReason()
		if !flipReason.MatchString(reason) {
			reason = "for a reason that cannot be" // the text comes from an agent
		}
		parts = append(parts, fmt.Sprintf("queue pair %d from path %d to %d: %s", f.GetQp(), f.GetFrom(), f.GetTo(), reason))
	}
	if more := count - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("%d more", more))
	}
	return strings.Join(parts, "; ")
}

// flipReason is the form of a valid reason for a flip.
var flipReason = regexp.MustCompile(`^[a-z -]{1,24}$`)

// askForProbes sends the core's probe requests to agents.
func (d *Daemon) askForProbes(ps []suspicion.Probe) {
	for _, p := range ps {
		d.service.Ask(uint32(p.Host), &statepb.ProbeRequest{
			Id: p.ID, Dst: uint32(p.Dst), Label: uint32(p.Label), Packets: uint32(p.Packets),
			TimeoutNs: int64(p.Timeout / fabric.Nanosecond),
		})
	}
}
