package recording

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/transport"
	"github.com/ethereal-fabric/ethereal/testbed/sim"
)

// Every returns the interval at which to call [Recorder.Read]; 0: never.
func (r *Recorder) Every() fabric.Time {
	if r == nil {
		return 0
	}
	return r.options.Every
}

// Read reads the counters of the network and of its hosts. framing is the number of bytes by which a frame is longer on
// the wire. Packets counted until now belong to the reading.
func (r *Recorder) Read(n *sim.Network, framing int64, nic func(fabric.NodeID) *transport.Endpoint) {
	if r == nil {
		return
	}
	now := n.Now()
	before := fabric.Time(0)
	if k := len(r.r.Readings); k > 0 {
		before = r.r.Readings[k-1]
	}
	kept := now > before && now > r.options.From && before < r.options.Until
	if kept {
		r.r.Readings = append(r.r.Readings, now)
	}
	span := now - before
	for d := range r.dirs {
		state := &r.dirs[d]
		state.mark, state.drop, state.lost = 0, 0, 0
		dir := sim.LinkDir(d)
		c := n.Counters(dir)
		rate := r.f.Link(dir.Link()).Rate
		used := rate.TimeFor(c.Bytes+(c.DataPackets+c.ControlPackets)*framing) - n.BusyFor(dir)
		area := c.MeanQueue * float64(now)
		if kept {
			r.r.Links = append(r.r.Links, LinkReading{
				Use:   uint16(max(0, min(1, float64(used-state.used)/float64(span)))*useUnit + 0.5),
				Queue: int32(max(0, (area-state.area)/float64(span)) + 0.5),
				Peak:  int32(n.QueuePeak(dir)),
			})
		}
		state.used, state.area = used, area
	}
	clear(r.drops)
	for h := range fabric.NodeID(r.f.Hosts()) {
		acked := nic(h).Stats().BytesAcked
		if kept {
			inFlight, allowed := nic(h).Sending()
			r.r.Hosts = append(r.r.Hosts, HostReading{
				Rate:     float32(float64(acked-r.acked[h]) * 8 / (float64(span) / float64(fabric.Nanosecond))),
				InFlight: inFlight, Allowed: float32(float64(allowed) / float64(fabric.Gbps)),
			})
		}
		r.acked[h] = acked
	}
}

// useUnit is a link's full capacity in [LinkReading].
const useUnit = 10_000
