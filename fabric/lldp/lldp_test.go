package lldp

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/ethereal-fabric/ethereal/fabric"
)

func leafSpine(t testing.TB) *fabric.Fabric {
	t.Helper()
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 2, HostsPerToR: 2})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestOurs(t *testing.T) {
	f := leafSpine(t)
	token := Token{1, 2, 3, 4, 5, 6, 7, 8}
	for id := range f.Nodes() {
		for p := 1; p <= f.Node(fabric.NodeID(id)).Ports(); p++ {
			from := fabric.End{Node: fabric.NodeID(id), Port: fabric.PortNo(p)}
			b, err := Append(nil, f, from, token)
			if err != nil {
				t.Fatal(err)
			}
			if len(b) < 60 {
				t.Errorf("%d bytes; a frame has 60", len(b))
			}
			l, ok := gopacket.NewPacket(b, layers.LayerTypeEthernet, gopacket.Default).Layer(layers.LayerTypeLinkLayerDiscoveryInfo).(*layers.LinkLayerDiscoveryInfo)
			if !ok || l.SysName != f.Name(from.Node) {
				t.Errorf("%+v: gopacket reads %+v", from, l)
			}
			w, err := Parse(b)
			if err != nil {
				t.Fatal(err)
			}
			if got, ok := w.Sender(f); !ok || got != from || !w.FromCheck || w.Token != token {
				t.Errorf("%+v: read back as %+v, %v, from %+v", from, got, ok, w)
			}
		}
	}
}

// others is a frame as an LLDP agent of somebody else's sends it.
func others(t testing.TB, mac [6]byte, system string) []byte {
	t.Helper()
	buf := gopacket.NewSerializeBuffer()
	err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true},
		&layers.Ethernet{SrcMAC: mac[:], DstMAC: Multicast[:], EthernetType: EtherType},
		&layers.LinkLayerDiscovery{
			ChassisID: layers.LLDPChassisID{Subtype: layers.LLDPChassisIDSubTypeMACAddr, ID: []byte{2, 0, 0, 0, 0, 9}},
			PortID:    layers.LLDPPortID{Subtype: layers.LLDPPortIDSubtypeMACAddr, ID: mac[:]},
			TTL:       120,
			Values:    []layers.LinkLayerDiscoveryValue{{Type: layers.LLDPTLVSysName, Length: uint16(len(system)), Value: []byte(system)}},
		})
	if err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestOthers(t *testing.T) {
	f := leafSpine(t)
	for _, tt := range []struct {
		mac    [6]byte
		system string
		host   fabric.NodeID
		ok     bool
	}{
		{[6]byte{2, 0, 0, 0, 0, 1}, "h1", 1, true},
		{f.MAC(3), "gpu-node-17", 3, true},
		{[6]byte{2, 0, 0, 0, 0, 1}, "gpu-node-17", 0, false},
		{[6]byte{2, 0, 0, 0, 0, 1}, "tor0", 0, false}, // a switch's own agent: its port names are its own
	} {
		w, err := Parse(others(t, tt.mac, tt.system))
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := w.Sender(f); ok != tt.ok || ok && got != (fabric.End{Node: tt.host, Port: 1}) {
			t.Errorf("%v %s: %+v, %v", tt.mac, tt.system, got, ok)
		}
	}
	w, err := Parse(others(t, [6]byte{}, "a\x1b[2Jb"+strings.Repeat("c", 100)))
	if err != nil || strings.ContainsRune(w.System, '\x1b') || len(w.System) > 64 {
		t.Errorf("%q, %v", w.System, err)
	}
}

func FuzzParse(f *testing.F) {
	ls := leafSpine(f)
	b, err := Append(nil, ls, fabric.End{Node: 4, Port: 3}, Token{})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(others(f, [6]byte{2}, "h0"))
	f.Add(b[:20])
	f.Fuzz(func(t *testing.T, frame []byte) {
		w, err := Parse(frame)
		l, ok := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default).Layer(layers.LayerTypeLinkLayerDiscovery).(*layers.LinkLayerDiscovery)
		if ok && l.ChassisID.Subtype > 0 && l.TTL > 0 && err != nil {
			t.Errorf("%v, but gopacket reads %+v", err, l)
		}
		if err != nil && !errors.Is(err, ErrMalformed) {
			t.Errorf("%v", err)
		}
		w.Sender(ls)
	})
}
