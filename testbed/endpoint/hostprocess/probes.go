package hostprocess

import (
	"math"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint/host"
)

// answer is to a controller's probe.
type answer struct {
	id   uint64 // the controller's
	done func(*statepb.ProbeResult)
}

// Probe sends what a controller asks for, down the label it names although the
// scheme may avoid it, and tells done what became of it, in the shell's goroutine.
func (r *Rank) Probe(now fabric.Time, p *statepb.ProbeRequest, done func(*statepb.ProbeResult)) {
	r.asked++
	r.answers[r.asked] = answer{p.GetId(), done}
	r.core.Probe(now, host.ProbeRequest{
		ID: r.asked, Dst: fabric.NodeID(min(p.GetDst(), math.MaxInt32)), Label: fabric.Label(min(p.GetLabel(), math.MaxUint16)),
		Packets: int(min(p.GetPackets(), math.MaxInt32)),
		Timeout: min(fabric.Time(p.GetTimeoutNs()), math.MaxInt64/fabric.Nanosecond) * fabric.Nanosecond,
	})
}
