// Package p4 puts a P4 switch, executed by p4switch/interp, into a network of testbed/sim.
//
// The switch's clock is the network's, in nanoseconds. Depths and priorities
// pass through as they are: interp.Config.QueuesPerPort must be larger than any
// priority that the program sets; package sim maps priorities to its own classes.
package p4

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/testbed/sim"
)

// Switch is a [sim.Pipeline] that runs a P4 switch. The zero value has none and drops every packet.
type Switch struct {
	sw    *interp.Switch
	slots []heldPacket
	free  []sim.Handle
	batch interp.Batch

	// Packets that are processed in place, by traces, belong to the switch that
	// was in use when they came.
	used []*interp.Switch
}

// heldPacket is a packet between the pipelines, with the switch that made it.
type heldPacket struct {
	sw *interp.Switch
	p  *interp.Packet
}

var _ sim.InPlace = (*Switch)(nil)

// New returns a pipeline around sw, which may be nil.
func New(sw *interp.Switch) *Switch {
	s := &Switch{}
	s.Use(sw)
	return s
}

// Use makes sw, which may be nil, process packets from now on. Packets that wait in queues are finished by the switch
// that began them.
func (s *Switch) Use(sw *interp.Switch) {
	s.sw = sw
	if sw != nil && sw.Traced() && len(s.used) < 256 {
		s.used = append(s.used, sw)
	}
}

// Ingress appends to out the copies of an arriving packet, for [sim.Pipeline].
func (s *Switch) Ingress(a sim.Arrival, out []sim.Copy) []sim.Copy {
	if s.sw == nil {
		return out
	}
	s.batch.Packets = s.batch.Packets[:0]
	s.sw.Ingress(interp.Input{Port: a.Port, Data: a.Header, Length: a.Length, Now: nanoseconds(a.Now)}, &s.batch)
	return s.collect(s.sw, out)
}

// IngressInPlace processes an arriving packet without copying it, for [sim.InPlace].
func (s *Switch) IngressInPlace(a sim.Arrival, held *sim.HeldPacket) (c sim.Copy, drop, ok bool) {
	if len(s.used) == 0 || s.used[len(s.used)-1] != s.sw {
		return c, false, false
	}
	h := (*interp.HeldPacket)(held)
	v, ok := s.sw.TraceIngress(interp.Input{Port: a.Port, Data: a.Header, Length: a.Length, Now: nanoseconds(a.Now)}, h)
	if !ok {
		return c, false, false
	}
	h.SetOwner(uint8(len(s.used) - 1))
	return sim.Copy{Port: v.Port, Length: a.Length, Priority: v.Priority}, v.Drop, true
}

// KeepInPlace reports that the packet of the last IngressInPlace was queued, so its header may be written, for
// [sim.InPlace].
func (s *Switch) KeepInPlace(header []byte) { s.sw.TraceKeep(header) }

// FreeInPlace reports that the traffic manager dropped the packet of the last IngressInPlace, for [sim.InPlace].
func (s *Switch) FreeInPlace() { s.sw.TraceFree() }

// EgressInPlace finishes, in place, a packet that left its queue, for [sim.InPlace].
func (s *Switch) EgressInPlace(header []byte, length int, held *sim.HeldPacket, q sim.QueueState,
	out []sim.Copy) (d sim.Departure, _ []sim.Copy, ok bool) {
	h := (*interp.HeldPacket)(held)
	sw := s.used[h.Owner()]
	state := queueState(q)
	drop, ok := sw.TraceEgress(header, length, h, state)
	if ok {
		return d, out, !drop
	}
	s.batch.Packets = s.batch.Packets[:0]
	o, ok := sw.Egress(sw.PacketFromHeld(header, length, h), state, &s.batch)
	return sim.Departure{Header: o.Data, Length: o.Length}, s.collect(sw, out), ok
}

// Resume processes a recirculated packet again, for [sim.Pipeline].
func (s *Switch) Resume(h sim.Handle, now fabric.Time, out []sim.Copy) []sim.Copy {
	t := s.take(h)
	s.batch.Packets = s.batch.Packets[:0]
	t.sw.Resume(t.p, nanoseconds(now), &s.batch)
	return s.collect(t.sw, out)
}

// Egress finishes a packet that left its queue, for [sim.Pipeline].
func (s *Switch) Egress(h sim.Handle, q sim.QueueState, out []sim.Copy) (sim.Departure, []sim.Copy, bool) {
	t := s.take(h)
	s.batch.Packets = s.batch.Packets[:0]
	o, ok := t.sw.Egress(t.p, queueState(q), &s.batch)
	return sim.Departure{Header: o.Data, Length: o.Length}, s.collect(t.sw, out), ok
}

// Trim cuts a packet to its header, for [sim.Pipeline].
func (s *Switch) Trim(h sim.Handle) { s.slots[h].p.Trim() }

// Free frees a packet that the traffic manager dropped, for [sim.Pipeline].
func (s *Switch) Free(h sim.Handle) {
	t := s.take(h)
	t.sw.Free(t.p)
}

func queueState(q sim.QueueState) interp.QueueState {
	return interp.QueueState{
		EnqTime: nanoseconds(q.EnqTime), DeqTime: nanoseconds(q.DeqTime),
		EnqDepth: q.EnqDepth, DeqDepth: q.DeqDepth,
	}
}

func nanoseconds(t fabric.Time) int64 { return int64(t / fabric.Nanosecond) }

// take releases a handle and returns its packet.
func (s *Switch) take(h sim.Handle) heldPacket {
	t := s.slots[h]
	s.slots[h] = heldPacket{}
	s.free = append(s.free, h)
	return t
}

// collect assigns handles to the packets of the batch.
func (s *Switch) collect(sw *interp.Switch, out []sim.Copy) []sim.Copy {
	for _, p := range s.batch.Packets {
		var h sim.Handle
		if k := len(s.free); k > 0 {
			h = s.free[k-1]
			s.free = s.free[:k-1]
			s.slots[h] = heldPacket{sw, p}
		} else {
			h = sim.Handle(len(s.slots))
			s.slots = append(s.slots, heldPacket{sw, p})
		}
		out = append(out, sim.Copy{
			Handle: h, Port: p.EgressPort, Length: p.Length, Priority: p.Priority,
			Resume: p.Stage == interp.StageIngress,
		})
	}
	return out
}
