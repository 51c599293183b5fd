// Package p4src holds the Ethereal P4 programs and what p4c made of them, so
// that a binary carries the programs it installs.
//
// The artefacts under build/ are committed: a machine without p4c can run
// everything. `make p4` rebuilds them; a test fails when a source was changed
// and they were not.
package p4src

import (
	_ "embed"
	"sync"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
)

//go:embed build/ethereal.json
var v1modelJSON []byte

//go:embed build/ethereal.p4info.txtpb
var v1modelP4Info []byte

//go:embed build/tna/tofino.p4info.txtpb
var tnaP4Info []byte

//go:embed build/tna/tofino2.p4info.txtpb
var t2naP4Info []byte

// ChipP4Info returns the P4Info in text form of tna/ethereal.p4 with the default table sizes, as compiled for an
// architecture, tna or t2na. Nil: there is none for it.
func ChipP4Info(architecture string) []byte {
	return map[string][]byte{"tna": tnaP4Info, "t2na": t2naP4Info}[architecture]
}

// V1ModelJSON returns the BMv2 JSON of v1model/ethereal.p4: the device config
// of BMv2 and of p4switch/p4runtime. The caller must not write to it.
func V1ModelJSON() []byte { return v1modelJSON }

// V1ModelP4InfoText returns the P4Info of v1model/ethereal.p4 in protobuf text
// format.
func V1ModelP4InfoText() []byte { return v1modelP4Info }

var parseP4Info = sync.OnceValues(func() (*p4config.P4Info, error) {
	info := new(p4config.P4Info)
	return info, prototext.Unmarshal(v1modelP4Info, info)
})

// V1ModelP4Info returns a copy of the P4Info of v1model/ethereal.p4.
func V1ModelP4Info() *p4config.P4Info {
	info, err := parseP4Info()
	if err != nil {
		panic("p4src: the embedded P4Info does not parse: " + err.Error()) // a test parses it
	}
	return proto.CloneOf(info)
}

// Ports, sessions and formats the P4 program fixes, shared/headers.p4.
const (
	PortEventPort      = 508    // ingress port at which the program accepts port-event packets
	CPUPort            = 510    // port of packet-out and packet-in
	QuenchSession      = 512    // clone session QuenchSession+p sends to port p
	QuenchUDPPort      = 47910  // source and destination port of a source quench
	EtherTypePortEvent = 0x88B6 // EtherType of port-event packets
	NeverQuench        = 1<<32 - 1
	MaxPorts           = 512 // size of the registers and counters indexed by port
)

// PortDown is the program's register of the ports that are down.
const PortDown = "port_down"

// PortTables returns the names of the tables that the P4 program looks up for a port-event packet. After they change,
// the packets must be repeated.
func PortTables() []string { return []string{"uplink_of_port"} }

// PortEventBytes is the length of a port-event packet.
const PortEventBytes = 14 + 8

// AppendPortEvent appends a port-event packet to b and returns the result. The
// epoch counts the port's events and must not be 0; a repeated event
// has the same.
func AppendPortEvent(b []byte, port uint16, up bool, epoch uint32) []byte {
	state := byte(0)
	if up {
		state = 1
	}
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, EtherTypePortEvent>>8, EtherTypePortEvent&0xff)
	return append(b, 1, state, byte(port>>8), byte(port),
		byte(epoch>>24), byte(epoch>>16), byte(epoch>>8), byte(epoch))
}
