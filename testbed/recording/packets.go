package recording

import (
	"encoding/binary"

	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/sim"
)

// packetKey identifies a marked packet in flight.
type packetKey struct{ src, dst, qp, psn uint32 }

// Offsets in a frame without VLAN, as the testbed's hosts send them.
const (
	etherTypeOffset        = 12
	tosOffset              = 15
	ipv4Offset, ipv6Offset = 14, 14
	bthV4                  = 14 + 20 + 8
	bthV6                  = 14 + 40 + 8
	ecnCE                  = 3 // ECN field of a packet that met congestion
)

// markedPacket returns the packet of a header, if it has the congestion mark.
func markedPacket(h []byte) (packetKey, bool) {
	if len(h) < bthV4+12 {
		return packetKey{}, false
	}
	var k packetKey
	var bth []byte
	switch binary.BigEndian.Uint16(h[etherTypeOffset:]) {
	case 0x0800:
		if h[tosOffset]&3 != ecnCE {
			return k, false
		}
		k.src, k.dst = binary.BigEndian.Uint32(h[ipv4Offset+12:]), binary.BigEndian.Uint32(h[ipv4Offset+16:])
		bth = h[bthV4:]
	case 0x86DD:
		if h[tosOffset]>>4&3 != ecnCE || len(h) < bthV6+12 {
			return k, false
		}
		k.src, k.dst = binary.BigEndian.Uint32(h[ipv6Offset+20:]), binary.BigEndian.Uint32(h[ipv6Offset+36:])
		bth = h[bthV6:]
	default:
		return k, false
	}
	k.qp = binary.BigEndian.Uint32(bth[4:]) & 0xFFFFFF
	k.psn = binary.BigEndian.Uint32(bth[8:]) & 0xFFFFFF
	return k, true
}

// Trace receives one event of the run, for [sim.Tracer].
func (r *Recorder) Trace(rec sim.Record) {
	switch rec.Kind {
	case sim.RecordSend:
		if rec.Class == 0 && int(rec.Node) >= r.f.Hosts() {
			r.sent(rec)
		}
	case sim.RecordDrop:
		if rec.Reason == sim.DropPipeline && rec.Length > 0 && rec.Dir < 0 && rec.Payload == 0 {
			return // a port event or an answered packet, which the program consumed
		}
		r.forget(rec.Header)
		if rec.Dir >= 0 {
			r.count(&r.dirs[rec.Dir].drop, Instant{At: rec.At, Kind: Drop, Node: rec.Node, Dir: rec.Dir, Text: rec.Reason.String()})
		} else {
			r.count(&r.drops[rec.Node], Instant{At: rec.At, Kind: Drop, Node: rec.Node, Dir: -1, Text: rec.Reason.String()})
		}
	case sim.RecordLost:
		r.forget(rec.Header)
		r.count(&r.dirs[rec.Dir].lost, Instant{At: rec.At, Kind: Lost, Node: rec.Node, Dir: rec.Dir})
	case sim.RecordCut, sim.RecordRestore:
		kind := report.KindCut
		if rec.Kind == sim.RecordRestore {
			kind = report.KindRestore
		}
		at := r.addInstant(Instant{At: rec.At, Kind: kind, Node: rec.Node, Dir: rec.Dir, Cause: -1})
		if at >= 0 {
			r.changes[rec.Dir.Link()] = at
		}
	}
}

// sent records where a packet was marked: the first port that it leaves marked.
func (r *Recorder) sent(rec sim.Record) {
	k, ok := markedPacket(rec.Header)
	if !ok {
		return
	}
	_, before := r.markedPackets[k]
	if _, to := DirectionEnds(r.f, rec.Dir); int(to.Node) < r.f.Hosts() {
		delete(r.markedPackets, k)
	} else if !before {
		r.markedPackets[k] = struct{}{}
	}
	if !before {
		r.count(&r.dirs[rec.Dir].mark, Instant{At: rec.At, Kind: Mark, Node: rec.Node, Dir: rec.Dir})
	}
}

func (r *Recorder) forget(header []byte) {
	if k, ok := markedPacket(header); ok {
		delete(r.markedPackets, k)
	}
}

// count adds one to the instant that counts such packets until the next reading, or makes one.
func (r *Recorder) count(open *openCount, i Instant) {
	if *open > 0 {
		r.r.Instants[*open-1].Count++
		return
	}
	i.Cause = -1
	*open = openCount(r.addInstant(i) + 1)
}
