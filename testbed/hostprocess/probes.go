package hostprocess

import (
	"math"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/testbed/host"
	"github.com/ethereal-fabric/ethereal/testbed/hostproto"
)

// answer processes the result of a probe.
type answer func(host.ProbeResult)

// Probe sends a controller's probe with the label that it names, even if the scheme avoids that path, and calls
// done with the result, in the shell's goroutine.
func (r *Rank) Probe(now fabric.Time, p *statepb.ProbeRequest, done func(*statepb.ProbeResult)) {
	id := p.GetId()
	r.probe(now, host.ProbeRequest{
		Dst: fabric.NodeID(min(p.GetDst(), math.MaxInt32)), Label: fabric.Label(min(p.GetLabel(), math.MaxUint16)),
		Packets: int(min(p.GetPackets(), math.MaxInt32)),
		Timeout: min(fabric.Time(p.GetTimeoutNs()), math.MaxInt64/fabric.Nanosecond) * fabric.Nanosecond,
	}, func(x host.ProbeResult) {
		done(&statepb.ProbeResult{
			Id: id, Sent: uint32(x.Sent), Lost: uint32(x.Lost), TripNs: int64(x.Trip / fabric.Nanosecond), LeastNs: int64(x.Least / fabric.Nanosecond),
		})
	})
}

// ProbePath is Probe for requests at the control socket.
func (r *Rank) ProbePath(now fabric.Time, p hostproto.Probe, done func(hostproto.Probed)) {
	r.probe(now, host.ProbeRequest{
		Dst: fabric.NodeID(max(-1, min(p.Dst, math.MaxInt32))), Label: fabric.Label(p.Label), Packets: p.Packets, Early: true,
		Timeout: min(fabric.Time(p.Timeout), math.MaxInt64/fabric.Nanosecond) * fabric.Nanosecond,
	}, func(x host.ProbeResult) {
		done(hostproto.Probed{
			Host: int(r.cfg.Host), Sent: x.Sent, Lost: x.Lost,
			Trip: int64(x.Trip / fabric.Nanosecond), Least: int64(x.Least / fabric.Nanosecond),
		})
	})
}

func (r *Rank) probe(now fabric.Time, p host.ProbeRequest, done answer) {
	r.asked++
	p.ID = r.asked
	r.answers[p.ID] = done
	r.core.Probe(now, p)
}
