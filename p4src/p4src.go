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
	PortEventPort      = 508    // ingress port on which port events are believed
	CPUPort            = 510    // of packet-out and packet-in
	QuenchSession      = 512    // clone session QuenchSession+p sends to port p
	QuenchUDPPort      = 47910  // source and destination port of a source quench
	EtherTypePortEvent = 0x88B6 // of a port-event packet
	NeverQuench        = 1<<32 - 1
	MaxPorts           = 512 // size of the port-indexed registers and counters
)

// PortDown is the program's register of the ports that are down.
const PortDown = "port_down"

// PortTables returns the names of the tables that the P4 program consults when
// a port event comes: it needs the events again after they changed.
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
