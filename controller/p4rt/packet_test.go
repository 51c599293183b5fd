package p4rt

import (
	"bytes"
	"errors"
	"testing"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"

	"github.com/ethereal-fabric/ethereal/controller/targets"
	"github.com/ethereal-fabric/ethereal/p4src"
)

func header(name, field string) *p4config.ControllerPacketMetadata {
	return &p4config.ControllerPacketMetadata{
		Preamble: &p4config.Preamble{Id: 1, Name: name, Alias: name},
		Metadata: []*p4config.ControllerPacketMetadata_Metadata{{Id: 3, Name: "other", Bitwidth: 8}, {Id: 7, Name: field, Bitwidth: 16}},
	}
}

func TestPackets(t *testing.T) {
	info := p4src.V1ModelP4Info()
	info.ControllerPacketMetadata = nil
	without, err := NewSchema(info)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := without.PacketOut(1, nil); !errors.Is(err, ErrNoPackets) {
		t.Errorf("a program without packets: %v", err)
	}
	info.ControllerPacketMetadata = []*p4config.ControllerPacketMetadata{header("packet_out", "egress_port"), header("packet_in", "ingress_port")}
	plain, err := NewSchema(info)
	if err != nil {
		t.Fatal(err)
	}
	ports, err := targets.NewPortMap([]targets.Port{{Name: "1/0", ID: 260}, {Name: "2/0", ID: 268}})
	if err != nil {
		t.Fatal(err)
	}
	s := plain.ForDialect(Dialect{Ports: ports})
	m, err := s.PacketOut(2, []byte("frame"))
	if err != nil {
		t.Fatal(err)
	}
	out := m.GetPacket()
	if len(out.GetMetadata()) != 1 || out.GetMetadata()[0].GetMetadataId() != 7 || string(out.GetMetadata()[0].GetValue()) != "\x01\x0c" || string(out.GetPayload()) != "frame" {
		t.Errorf("packet-out: %v", out)
	}
	if m, err = s.PortEvent(2, true, 9); err != nil {
		t.Fatal(err)
	}
	if out = m.GetPacket(); string(out.GetMetadata()[0].GetValue()) != "\x01\xfc" || !bytes.Equal(out.GetPayload(), p4src.AppendPortEvent(nil, 268, true, 9)) {
		t.Errorf("port event: %v", out)
	}
	if _, err := s.PortEvent(3, true, 9); !errors.Is(err, ErrEntry) {
		t.Errorf("an event of a port that is not mapped: %v", err)
	}
	if _, err := s.PacketOut(3, nil); !errors.Is(err, ErrEntry) {
		t.Errorf("a port that is not mapped: %v", err)
	}
	for _, tt := range []struct {
		value    string
		id, port uint32
		ok       bool
	}{
		{"\x01\x0c", 268, 2, true}, {"\x00\x01\x04", 260, 1, true}, {"\x09", 9, 0, true}, {"", 0, 0, false}, {"\x01\x00\x00", 0, 0, false},
	} {
		in, ok := s.PacketIn(&p4.PacketIn{Payload: []byte("frame"), Metadata: []*p4.PacketMetadata{{MetadataId: 7, Value: []byte(tt.value)}}})
		if ok != tt.ok || ok && (in.ID != tt.id || uint32(in.Port) != tt.port || string(in.Frame) != "frame") {
			t.Errorf("%x: %+v, %v", tt.value, in, ok)
		}
	}
	if _, ok := s.PacketIn(&p4.PacketIn{}); ok {
		t.Error("a packet that does not say where it came in")
	}
}
