package daemon

import (
	"time"

	"github.com/ethereal-fabric/ethereal/controller/suspicion"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
)

// reported takes what an agent says of paths that timed out and of probes.
func (d *Daemon) reported(host fabric.NodeID, r *statepb.Report) {
	now := d.clock()
	for _, s := range r.GetSuspicions() {
		x := suspicion.Report{
			Host: host, DstToR: nodeID(s.GetDstTor()), Dst: suspicion.NoHost,
			Label: fabric.Label(min(s.GetLabel(), 1<<16-1)), Timeouts: int(s.GetTimeouts()),
		}
		if s.Dst != nil {
			x.Dst = nodeID(s.GetDst())
		}
		if err := d.suspicion.Report(now, x); err != nil {
			if d.oddReports++; time.Since(d.oddSaid) >= time.Second {
				d.cfg.Log.Warn("report", "host", d.f.Name(host), "err", err, "odd", d.oddReports)
				d.oddReports, d.oddSaid = 0, time.Now()
			}
			continue
		}
		d.cfg.Events.add(Record{
			Time: time.Now(), Kind: "report", Host: d.f.Name(host), To: d.f.Name(x.DstToR), Label: int(x.Label), Count: x.Timeouts,
		})
	}
	for _, p := range r.GetProbes() {
		d.suspicion.ProbeResult(now, host, p.GetId(), int(min(p.GetSent(), 1<<20)), int(min(p.GetLost(), 1<<20)))
	}
}

// nodeID keeps a number from outside from becoming another one.
func nodeID(n uint32) fabric.NodeID { return fabric.NodeID(min(n, 1<<31-1)) }

// flushSuspicions tells agents what is suspected and asks for probes.
func (d *Daemon) flushSuspicions() {
	r := d.suspicion.Ready()
	for _, s := range r.Suspicions {
		name := d.f.LinkName(s.Link)
		if err := d.core.Suspect(s.At, s.Link, s.Suspected, s.Confirmed); err != nil {
			d.cfg.Log.Error("suspicion", "err", err)
			continue
		}
		d.cfg.Log.Warn("link", "link", name, "suspected", s.Suspected, "confirmed", s.Confirmed, "epoch", d.core.Epoch())
		state := "cleared"
		switch {
		case s.Suspected && s.Confirmed:
			state = "confirmed"
		case s.Suspected:
			state = "suspected"
		}
		d.cfg.Events.add(Record{Time: time.Now(), Kind: "suspect", Link: name, State: state, Epoch: d.core.Epoch()})
	}
	for _, p := range r.Probes {
		d.service.Ask(uint32(p.Host), &statepb.ProbeRequest{
			Id: p.ID, Dst: uint32(p.Dst), Label: uint32(p.Label), Packets: uint32(p.Packets),
			TimeoutNs: int64(p.Timeout / fabric.Nanosecond),
		})
	}
}
