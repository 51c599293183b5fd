package interp

import (
	"encoding/binary"
	"math"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// Values of instance_type, as simple_switch has them.
const (
	instanceNormal       = 0
	instanceIngressClone = 1
	instanceEgressClone  = 2
	instanceRecirc       = 4
	instanceReplication  = 5
	instanceResubmit     = 6
)

// Ingress processes a packet that arrives at a port: parser, checksum verification, ingress pipeline. The resulting
// packets, with clones and multicast copies, are appended to out, to be queued at their egress ports. A dropped packet
// appends nothing.
func (s *Switch) Ingress(in Input, out *Batch) {
	s.beginCall(in.Now)
	p := s.newPacket()
	p.buf = s.newBuffer(len(in.Data))
	p.start = headroom
	p.end = headroom + copy(p.buf.b[headroom:], in.Data)
	clear(p.buf.b[p.end:])
	p.virtualBytes = max(0, in.Length-len(in.Data))
	n := len(in.Data) + p.virtualBytes
	p.IngressPort = in.Port
	p.pktLen, p.ingressLen = n, n
	v := p.v
	clear(v[s.p.PHVLo:s.p.PHVHi])
	std := &s.p.Standard
	std.IngressPort.Set(v, uint64(in.Port))
	std.PacketLength.Set(v, uint64(n))
	std.InstanceType.Set(v, instanceNormal)
	std.IngressTS.Set(v, uint64(in.Now/1000))
	s.cfg.Tracer.begin(p, nil, s.now)
	s.ingress(p, out)
}

// Resume processes a recirculated or resubmitted packet (StageIngress) again, from ingress on.
func (s *Switch) Resume(p *Packet, now int64, out *Batch) {
	if p == nil || !p.queued || p.Stage != StageIngress {
		return
	}
	s.beginCall(now)
	p.queued = false
	s.ingress(p, out)
}

// beginCall starts a call: the last output's bytes are no longer the caller's.
func (s *Switch) beginCall(now int64) {
	s.now = now
	if s.lastOutput != nil {
		s.releaseBuffer(s.lastOutput)
		s.lastOutput = nil
	}
}

func (s *Switch) dropPacket(p *Packet, why DropReason) {
	s.drops[why]++
	s.cfg.Tracer.end(p, why, nil)
	s.recycle(p)
}

// ingress runs one packet, which has its metadata set, until it leaves the
// ingress pipeline for good.
func (s *Switch) ingress(p *Packet, out *Batch) {
	std := &s.p.Standard
	v := p.v
	length := p.pktLen
	p.pos = p.start
	code, ok := s.runParser(p)
	if !ok {
		s.dropPacket(p, DropParserLoop)
		return
	}
	std.ParserError.Set(v, code)
	if s.p.Verifies {
		std.ChecksumError.Set(v, boolToUint(!s.verifyChecksums(p)))
	}
	p.addTraceEvent(StageEnter, "ingress")
	s.runCode(p, s.p.Ingress)
	p.addTraceEvent(StageExit, "ingress")
	p.exit = false
	if p.dropReason != 0 {
		s.dropPacket(p, p.dropReason)
		return
	}
	if p.clone != 0 {
		s.cloneIngress(p, length, out)
	}
	if p.learn != 0 {
		s.sendDigest(p)
	}
	if p.resubmit != 0 {
		p.pktLen = length
		p.addTraceEvent(Again, "resubmit")
		s.resubmit(p, uint64(p.resubmit), instanceResubmit, out)
		return
	}
	if g := std.Multicast.Get(v); g != 0 {
		std.InstanceType.Set(v, instanceReplication)
		s.multicast(p, s.groups[uint32(g)], out)
		if p.trace != nil {
			p.trace.Copied = true
			s.cfg.Tracer.end(p, 0, nil)
		}
		s.recycle(p)
		return
	}
	port := uint32(std.EgressSpec.Get(v))
	if uint64(port) == s.dropSpec {
		s.dropPacket(p, DropIngress)
		return
	}
	std.InstanceType.Set(v, instanceNormal)
	s.enqueue(p, port, 0, out)
}

// resubmit adds a packet to the batch for another pass through ingress.
func (s *Switch) resubmit(p *Packet, list uint64, instance uint64, out *Batch) {
	if s.tooManyPasses(p) {
		s.dropPacket(p, DropPasses)
		return
	}
	s.resetForParser(p, list, instance)
	s.p.Standard.PacketLength.Set(p.v, uint64(p.pktLen))
	p.Stage, p.Length = StageIngress, p.pktLen
	p.queued = true
	out.Packets = append(out.Packets, p)
}

// tooManyPasses counts a resubmit or recirculation of a packet, and reports whether the limit is exceeded.
func (s *Switch) tooManyPasses(p *Packet) bool {
	p.passes++
	return s.cfg.MaxPasses > 0 && p.passes > s.cfg.MaxPasses
}

// resetForParser resets a packet's headers and metadata but for the fields of a
// list, to be parsed again.
func (s *Switch) resetForParser(p *Packet, list uint64, instance uint64) {
	v := p.v
	refs := s.p.FieldLists[list]
	saved := s.saveFields(v, refs)
	clear(v[s.p.PHVLo:s.p.PHVHi])
	restoreFields(v, refs, saved)
	s.p.Standard.InstanceType.Set(v, instance)
	p.resubmit, p.recirculate, p.clone, p.cloneList, p.learn = 0, 0, 0, 0, 0
	p.exit, p.dropReason = false, 0
	p.truncate = math.MaxInt
}

// saveFields copies fields out to scratch.
func (s *Switch) saveFields(v []uint64, refs []program.Ref) []uint64 {
	n := 0
	for _, r := range refs {
		n += r.Field.Words
	}
	if cap(s.key) < n {
		s.key = make([]uint64, n)
	}
	buf := s.key[:0]
	for _, r := range refs {
		buf = append(buf, v[r.Slot():r.Slot()+uint32(r.Field.Words)]...)
	}
	return buf
}

func restoreFields(v []uint64, refs []program.Ref, saved []uint64) {
	for _, r := range refs {
		saved = saved[copy(v[r.Slot():r.Slot()+uint32(r.Field.Words)], saved):]
	}
}

// cloneIngress makes the clones that the ingress asked for: of the packet as
// it entered, parsed again, with the list's metadata as it is now.
func (s *Switch) cloneIngress(p *Packet, length int, out *Batch) {
	id, list := uint32(p.clone&^cloneFlag), uint64(p.cloneList)
	p.clone, p.cloneList = 0, 0
	cs := s.clones[id]
	if cs == nil {
		s.drops[DropNoSession]++
		return
	}
	refs := s.p.FieldLists[list]
	for i := range cs.Replicas {
		q := s.newPacket()
		q.buf = p.buf
		q.buf.refs++
		q.start, q.pos, q.end = p.start, p.start, p.end
		q.virtualBytes, q.pktLen, q.ingressLen = p.virtualBytes, length, p.ingressLen
		q.IngressPort = p.IngressPort
		s.cfg.Tracer.begin(q, p, s.now)
		v := q.v
		clear(v[s.p.PHVLo:s.p.PHVHi])
		s.p.Standard.IngressPort.Set(v, uint64(p.IngressPort))
		if _, ok := s.runParser(q); !ok {
			s.dropPacket(q, DropParserLoop)
			continue
		}
		clear(v[s.p.PHVLo:s.p.MetaHi])
		restoreFields(v, refs, s.saveFields(p.v, refs))
		s.p.Standard.InstanceType.Set(v, instanceIngressClone)
		s.sendClone(q, cs, i, out)
	}
}

// sendClone hands out one clone.
func (s *Switch) sendClone(q *Packet, cs *CloneSession, i int, out *Batch) {
	if cs.Truncate > 0 {
		q.limit(cs.Truncate)
	}
	s.p.Standard.ReplicaID.Set(q.v, uint64(cs.Replicas[i].Instance))
	s.enqueue(q, cs.Replicas[i].Port, cs.Class, out)
}

// limit cuts the packet, with its headers, to n bytes when it is deparsed.
func (p *Packet) limit(n int) {
	p.cloneTruncate = n
}

// multicast makes copies of p for the replicas.
func (s *Switch) multicast(p *Packet, group *[]Replica, out *Batch) {
	if group == nil || len(*group) == 0 {
		s.drops[DropNoGroup]++
		s.cfg.Tracer.end(p, DropNoGroup, nil)
		return
	}
	for _, r := range *group {
		q := s.duplicate(p)
		s.p.Standard.ReplicaID.Set(q.v, uint64(r.Instance))
		s.enqueue(q, r.Port, 0, out)
	}
}

// duplicate copies a packet with its headers; the bytes are shared.
func (s *Switch) duplicate(p *Packet) *Packet {
	q := s.newPacket()
	copy(q.v[s.p.PHVLo:s.p.PHVHi], p.v[s.p.PHVLo:s.p.PHVHi])
	q.buf = p.buf
	q.buf.refs++
	q.start, q.pos, q.end = p.start, p.pos, p.end
	q.virtualBytes, q.pktLen, q.ingressLen = p.virtualBytes, p.pktLen, p.ingressLen
	q.IngressPort, q.passes = p.IngressPort, p.passes
	s.cfg.Tracer.begin(q, p, s.now)
	return q
}

// enqueue adds a packet to the batch of the traffic manager.
func (s *Switch) enqueue(p *Packet, port uint32, class uint8, out *Batch) {
	prio := s.p.Standard.Priority.Get(p.v)
	if class != 0 {
		prio = uint64(class)
	}
	if prio >= uint64(s.cfg.QueuesPerPort) {
		if s.portDrops == nil {
			s.portDrops = map[uint32]uint64{}
		}
		s.portDrops[port]++
		s.dropPacket(p, DropPriority)
		return
	}
	p.EgressPort, p.Priority, p.Length = port, uint8(prio), p.pktLen
	p.Stage = StageEgress
	p.queued = true
	out.Packets = append(out.Packets, p)
}

// Egress processes a packet that leaves its port's queue: egress pipeline and deparser. ok is false if nothing leaves.
// Egress clones are appended to out, as is the packet itself if it recirculates (StageIngress). In any case the caller
// must not use p afterwards.
func (s *Switch) Egress(p *Packet, q QueueState, out *Batch) (o Output, ok bool) {
	if p == nil || !p.queued || p.Stage != StageEgress {
		return Output{}, false
	}
	s.beginCall(q.DeqTime)
	p.queued = false
	v := p.v
	std := &s.p.Standard
	std.EgressTS.Set(v, uint64(q.DeqTime/1000))
	std.EnqTS.Set(v, uint64(q.EnqTime/1000))
	std.EnqDepth.Set(v, uint64(q.EnqDepth))
	std.DeqDelta.Set(v, uint64(q.DeqTime/1000-q.EnqTime/1000))
	std.DeqDepth.Set(v, uint64(q.DeqDepth))
	std.QueueID.Set(v, uint64(p.Priority))
	std.EgressPort.Set(v, uint64(p.EgressPort))
	std.EgressSpec.Set(v, s.dropSpec+1)
	std.PacketLength.Set(v, uint64(p.pktLen))
	p.clone, p.cloneList, p.learn, p.resubmit, p.recirculate = 0, 0, 0, 0, 0

	p.addTraceEvent(StageEnter, "egress")
	s.runCode(p, s.p.Egress)
	p.addTraceEvent(StageExit, "egress")
	p.exit = false
	if p.dropReason != 0 {
		s.dropPacket(p, p.dropReason)
		return Output{}, false
	}
	if p.clone != 0 {
		s.cloneEgress(p, out)
	}
	if std.EgressSpec.Get(v) == s.dropSpec {
		s.dropPacket(p, DropEgress)
		return Output{}, false
	}
	if s.p.Updates {
		s.updateChecksums(p)
	}
	if p.recirculate != 0 {
		s.doRecirculate(p, out)
		return Output{}, false
	}
	o.Port = p.EgressPort
	o.Data, o.Length = s.deparsePacket(p)
	s.lastOutput, p.buf = p.buf, nil
	if p.trace != nil {
		s.cfg.Tracer.end(p, 0, &Transmitted{o.Port, o.Length})
	}
	s.recycle(p)
	return o, true
}

// cloneEgress makes the clones that the egress asked for: copies of the
// packet as it is, with fresh metadata but for the list's.
func (s *Switch) cloneEgress(p *Packet, out *Batch) {
	id, list := uint32(p.clone&^cloneFlag), uint64(p.cloneList)
	p.clone, p.cloneList = 0, 0
	cs := s.clones[id]
	if cs == nil {
		s.drops[DropNoSession]++
		return
	}
	if s.cfg.MaxPasses > 0 && p.passes >= s.cfg.MaxPasses { // clones of clones without end
		s.drops[DropPasses]++
		return
	}
	refs := s.p.FieldLists[list]
	for i := range cs.Replicas {
		q := s.duplicate(p)
		q.passes++
		q.Tag = p.Tag
		clear(q.v[s.p.PHVLo:s.p.MetaHi])
		restoreFields(q.v, refs, s.saveFields(p.v, refs))
		s.p.Standard.InstanceType.Set(q.v, instanceEgressClone)
		s.sendClone(q, cs, i, out)
	}
}

// doRecirculate deparses p and hands it out for another pass.
func (s *Switch) doRecirculate(p *Packet, out *Batch) {
	p.truncate = math.MaxInt // which is for packets that leave, as in BMv2
	data, n := s.deparsePacket(p)
	p.addTraceEvent(Again, "recirculate")
	b := s.newBuffer(len(data))
	copy(b.b[headroom:], data)
	clear(b.b[headroom+len(data):])
	s.releaseBuffer(p.buf)
	p.buf = b
	p.start, p.end, p.virtualBytes = headroom, headroom+len(data), n-len(data)
	p.pktLen, p.ingressLen = n, n
	p.cloneTruncate = 0
	s.resubmit(p, uint64(p.recirculate), instanceRecirc, out)
}

// deparsePacket writes the valid headers before the payload. The bytes are in
// the packet's buffer, or in the switch's when that is shared.
func (s *Switch) deparsePacket(p *Packet) (data []byte, length int) {
	p.addTraceEvent(StageEnter, "deparser")
	if s.p.DeparsePC != 0 {
		s.runCode(p, s.p.DeparsePC)
	}
	w := &s.out
	w.reset()
	v := p.v
	for i := range s.p.Deparser {
		d := &s.p.Deparser[i]
		if v[d.Valid] == 0 {
			continue
		}
		if v[d.Raw] != 0 { // never of a header that lives in slots: the slot is 0 then
			w.flush()
			at := int(v[d.Raw]) - 1
			w.appendPatched(p.buf.b[at:at+d.Bytes], v, d.Patches, v[d.Dirty])
		} else {
			s.emitHeaders(w, v, s.p.Emits[d.ID])
			if s.p.Extractions[d.ID].Varbit {
				w.flush()
			}
		}
		if k := d.Sum; k != nil && s.checksumApplies(p, k) {
			w.flush()
			b := w.buf[len(w.buf)-d.Bytes:]
			b[k.At], b[k.At+1] = 0, 0
			binary.BigEndian.PutUint16(b[k.At:], uint16(program.InternetChecksum(b)))
		}
	}
	w.flush()
	hdr := len(w.buf)
	if p.buf.refs == 1 && hdr <= p.pos {
		at := p.pos - hdr
		copy(p.buf.b[at:], w.buf)
		data = p.buf.b[at:p.end]
	} else {
		w.buf = append(w.buf, p.buf.b[p.pos:p.end]...)
		data = w.buf
	}
	n := len(data) + p.virtualBytes
	n = min(n, p.truncate)
	if p.cloneTruncate > 0 {
		n = min(n, p.cloneTruncate)
	}
	p.addTraceEvent(StageExit, "deparser")
	return data[:min(len(data), n)], n
}

// sendDigest sends the digest that the ingress asked for.
func (s *Switch) sendDigest(p *Packet) {
	id, ok := s.p.DigestByID[uint64(p.learn)]
	p.learn = 0
	if !ok || s.cfg.Digest == nil {
		return
	}
	refs := s.p.DigestFields[id]
	rec := DigestRecord{Digest: program.DigestID(id), Now: s.now, Fields: make([][]byte, len(refs))}
	for i, r := range refs {
		if p.v[r.Guard()] == 0 {
			continue
		}
		rec.Fields[i] = bytesOfWords(p.v[r.Slot():r.Slot()+uint32(r.Field.Words)], r.Field.Width)
	}
	s.cfg.Digest(rec)
}

// maxCopies bounds the packets that one packet becomes in Process.
const maxCopies = 1 << 14

// Process processes a packet by both pipelines, without a queue between them. It calls emit for every packet that
// leaves; emit must not call the switch. After 16384 copies of one packet it stops.
func (s *Switch) Process(in Input, emit func(Output)) {
	b := &s.batch
	b.Packets = b.Packets[:0]
	s.Ingress(in, b)
	q := QueueState{EnqTime: in.Now, DeqTime: in.Now}
	done := 0
	for i := 0; i < len(b.Packets); i++ {
		p := b.Packets[i]
		if done++; done > maxCopies {
			p.queued = false
			s.dropPacket(p, DropPasses)
			continue
		}
		if p.Stage == StageIngress {
			s.Resume(p, in.Now, b)
		} else if o, ok := s.Egress(p, q, b); ok {
			emit(o)
		}
		if i > 1<<12 { // a long chain of recirculations: forget what is done
			b.Packets = b.Packets[:copy(b.Packets, b.Packets[i+1:])]
			i = -1
		}
	}
}
