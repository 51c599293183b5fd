package p4runtime

import (
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"

	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

// PacketIn sends a packet that left the data plane at the CPU port to the primary controllers. The packet_in header
// is removed and becomes metadata. data is copied.
func (c *Core) PacketIn(data []byte) {
	if c.live == nil {
		c.stats.PacketInNoPrimary++
		return
	}
	m := &p4.PacketIn{}
	if l := c.live.packetIn; l != nil {
		if len(data) < l.bytes {
			c.stats.PacketInShort++
			return
		}
		r := bitReader{b: data[:l.bytes]}
		for _, f := range l.fields {
			m.Metadata = append(m.Metadata, &p4.PacketMetadata{MetadataId: f.id, Value: c.live.controllerValue(&f, canonicalBytes(r.next(f.width)))})
		}
		data = data[l.bytes:]
	}
	m.Payload = append([]byte{}, data...)
	sent, primaries := c.toPrimaries(&object{}, &p4.StreamMessageResponse{Update: &p4.StreamMessageResponse_Packet{Packet: m}})
	switch {
	case sent > 0:
		c.stats.PacketIn++
	case primaries > 0:
		c.stats.PacketInStreamFull++
	default:
		c.stats.PacketInNoPrimary++
	}
}

// packetOut injects a controller's packet with its packet_out header.
func (c *Core) packetOut(s *Stream, m *p4.PacketOut) error {
	switch {
	case !s.Primary():
		return rpc.Errorf(codes.PermissionDenied, "only the primary controller may send packets")
	case c.live == nil:
		return errNoPipeline()
	case c.cfg.CPUPort == 0 || c.cfg.OnPacketOut == nil:
		return rpc.Errorf(codes.FailedPrecondition, "the switch has no CPU port")
	}
	var header []byte
	if l := c.live.packetOut; l != nil {
		values := make([][]byte, len(l.fields))
		for _, md := range m.GetMetadata() {
			i := -1
			for j := range l.fields {
				if l.fields[j].id == md.GetMetadataId() {
					i = j
				}
			}
			if i < 0 {
				return rpc.Invalidf("packet_out has no metadata with id %d", md.GetMetadataId())
			}
			if values[i] != nil {
				return rpc.Invalidf("metadata %s is given twice", l.fields[i].name)
			}
			value := md.GetValue()
			if t := l.fields[i].named; t != nil {
				var err error
				if value, err = c.live.requestValue(t, value); err != nil {
					return err
				}
			}
			if err := checkWidth(value, l.fields[i].width, l.fields[i].name); err != nil {
				return err
			}
			values[i] = value
		}
		w := bitWriter{b: make([]byte, l.bytes)}
		for i, f := range l.fields {
			if values[i] == nil && !c.cfg.PartialPacketOut {
				return rpc.Invalidf("metadata %s (id %d) is missing", f.name, f.id)
			}
			w.put(values[i], f.width)
		}
		header = w.b
	} else if len(m.GetMetadata()) > 0 {
		return rpc.Invalidf("the program has no packet_out header, so the packet can have no metadata")
	}
	c.stats.PacketOut++
	c.cfg.OnPacketOut(append(header, m.GetPayload()...))
	return nil
}

// controllerValue returns a header field's value in the controllers' form.
func (p *pipeline) controllerValue(f *paramSchema, value []byte) []byte {
	if f.named == nil {
		return value
	}
	return []byte(p.nameOfNumber(f.named, toNumber(value)))
}
