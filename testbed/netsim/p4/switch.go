// Package p4 puts a P4 switch, executed by testbed/bmv2, into a netsim network.
//
// The switch's clock is the network's, in nanoseconds. Depths and priorities
// pass through as they are: bmv2.Config.QueuesPerPort must be larger than any
// priority that the program sets; netsim maps priorities to its own classes.
package p4

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/bmv2"
	"github.com/ethereal-fabric/ethereal/testbed/netsim"
)

// Switch is a [netsim.Pipeline] around a [bmv2.Switch]. The zero value has no
// switch and drops every packet, as a device without a pipeline does.
type Switch struct {
	sw    *bmv2.Switch
	slots []slot
	free  []netsim.Handle
	batch bmv2.Batch

	// Packets that are processed in place, by traces, belong to the switch that
	// was in use when they came.
	used []*bmv2.Switch
}

// slot is a packet between the pipelines, with the switch that made it.
type slot struct {
	sw *bmv2.Switch
	p  *bmv2.Packet
}

var _ netsim.InPlace = (*Switch)(nil)

// New returns a pipeline around sw, which may be nil.
func New(sw *bmv2.Switch) *Switch {
	s := &Switch{}
	s.Use(sw)
	return s
}

// Use makes sw, which may be nil, process packets from now on. Packets that are
// in queues are finished by the switch that began them.
func (s *Switch) Use(sw *bmv2.Switch) {
	s.sw = sw
	if sw != nil && sw.Traced() && len(s.used) < 256 {
		s.used = append(s.used, sw)
	}
}

// Ingress implements [netsim.Pipeline].
func (s *Switch) Ingress(a netsim.Arrival, out []netsim.Copy) []netsim.Copy {
	if s.sw == nil {
		return out
	}
	s.batch.Packets = s.batch.Packets[:0]
	s.sw.Ingress(bmv2.Input{Port: a.Port, Data: a.Header, Length: a.Length, Now: nanoseconds(a.Now)}, &s.batch)
	return s.collect(s.sw, out)
}

// IngressInPlace implements [netsim.InPlace].
func (s *Switch) IngressInPlace(a netsim.Arrival, held *netsim.Held) (c netsim.Copy, drop, ok bool) {
	if len(s.used) == 0 || s.used[len(s.used)-1] != s.sw {
		return c, false, false
	}
	h := (*bmv2.Held)(held)
	v, ok := s.sw.TraceIngress(bmv2.Input{Port: a.Port, Data: a.Header, Length: a.Length, Now: nanoseconds(a.Now)}, h)
	if !ok {
		return c, false, false
	}
	h.SetOwner(uint8(len(s.used) - 1))
	return netsim.Copy{Port: v.Port, Length: a.Length, Priority: v.Priority}, v.Drop, true
}

// KeepInPlace implements [netsim.InPlace].
func (s *Switch) KeepInPlace(header []byte) { s.sw.TraceKeep(header) }

// FreeInPlace implements [netsim.InPlace].
func (s *Switch) FreeInPlace() { s.sw.TraceFree() }

// EgressInPlace implements [netsim.InPlace].
func (s *Switch) EgressInPlace(header []byte, length int, held *netsim.Held, q netsim.QueueState,
	out []netsim.Copy) (d netsim.Departure, _ []netsim.Copy, ok bool) {
	h := (*bmv2.Held)(held)
	sw := s.used[h.Owner()]
	state := queueState(q)
	drop, ok := sw.TraceEgress(header, length, h, state)
	if ok {
		return d, out, !drop
	}
	s.batch.Packets = s.batch.Packets[:0]
	o, ok := sw.Egress(sw.Unhold(header, length, h), state, &s.batch)
	return netsim.Departure{Header: o.Data, Length: o.Length}, s.collect(sw, out), ok
}

// Resume implements [netsim.Pipeline].
func (s *Switch) Resume(h netsim.Handle, now fabric.Time, out []netsim.Copy) []netsim.Copy {
	t := s.take(h)
	s.batch.Packets = s.batch.Packets[:0]
	t.sw.Resume(t.p, nanoseconds(now), &s.batch)
	return s.collect(t.sw, out)
}

// Egress implements [netsim.Pipeline].
func (s *Switch) Egress(h netsim.Handle, q netsim.QueueState, out []netsim.Copy) (netsim.Departure, []netsim.Copy, bool) {
	t := s.take(h)
	s.batch.Packets = s.batch.Packets[:0]
	o, ok := t.sw.Egress(t.p, queueState(q), &s.batch)
	return netsim.Departure{Header: o.Data, Length: o.Length}, s.collect(t.sw, out), ok
}

// Free implements [netsim.Pipeline].
func (s *Switch) Free(h netsim.Handle) {
	t := s.take(h)
	t.sw.Free(t.p)
}

func queueState(q netsim.QueueState) bmv2.QueueState {
	return bmv2.QueueState{
		EnqTime: nanoseconds(q.EnqTime), DeqTime: nanoseconds(q.DeqTime),
		EnqDepth: q.EnqDepth, DeqDepth: q.DeqDepth,
	}
}

func nanoseconds(t fabric.Time) int64 { return int64(t / fabric.Nanosecond) }

// take gives up a handle.
func (s *Switch) take(h netsim.Handle) slot {
	t := s.slots[h]
	s.slots[h] = slot{}
	s.free = append(s.free, h)
	return t
}

// collect gives the packets of the batch handles.
func (s *Switch) collect(sw *bmv2.Switch, out []netsim.Copy) []netsim.Copy {
	for _, p := range s.batch.Packets {
		var h netsim.Handle
		if k := len(s.free); k > 0 {
			h = s.free[k-1]
			s.free = s.free[:k-1]
			s.slots[h] = slot{sw, p}
		} else {
			h = netsim.Handle(len(s.slots))
			s.slots = append(s.slots, slot{sw, p})
		}
		out = append(out, netsim.Copy{
			Handle: h, Port: p.EgressPort, Length: p.Length, Priority: p.Priority,
			Resume: p.Stage == bmv2.StageIngress,
		})
	}
	return out
}
