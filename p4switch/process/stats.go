package process

import (
	"slices"
	"time"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
)

// Stats counts packets of a [Device]. Pipeline has the packets that the P4 program dropped.
type Stats struct {
	Ingress       uint64 // packets that entered the ingress pipeline from ports
	Sent          uint64 // packets passed to ports
	PacketIn      uint64 // packets that left at the CPU port
	TailDrops     uint64 // packets dropped because their queue was full
	NoPort        uint64 // sent to a port without an interface
	PortDown      uint64 // packets dropped because their port was down
	NoProgram     uint64 // packets that arrived before the first program
	TooLong       uint64 // longer than the MTU of their port, and not TCP
	Cut           uint64 // TCP super-frames that were cut into segments
	Recirculated  uint64
	RecircDrops   uint64        // dropped because too many waited for another pass
	InjectDrops   uint64        // packet-outs and port events dropped because too many waited
	NoticeDrops   uint64        // packet-ins and digests lost because too many waited
	LongestHold   time.Duration // longest time that packets waited because the control side held the lock
	PortEvents    uint64        // port-event packets injected
	PipelineDrops interp.DropCounts
	Kernel        *KernelStats // nil: Config.Kernel is not set; its packets are also in the counts above
}

// Drop is the number of packets dropped for one reason.
type Drop struct {
	Reason  string `json:"reason"`
	Packets uint64 `json:"packets"`
}

// Drops returns the reasons for which packets were dropped.
func (s Stats) Drops() []Drop {
	all := []Drop{
		{"queue full", s.TailDrops}, {"no port", s.NoPort}, {"port down", s.PortDown}, {"no program", s.NoProgram}, {"longer than the MTU", s.TooLong},
		{"recirculation full", s.RecircDrops}, {"too many control packets waiting", s.InjectDrops}, {"controllers too slow", s.NoticeDrops},
	}
	for i, n := range s.PipelineDrops {
		if reason := interp.DropReason(i); reason != interp.DropTrafficManager { // counted above, by cause
			all = append(all, Drop{reason.String(), n})
		}
	}
	return slices.DeleteFunc(all, func(x Drop) bool { return x.Packets == 0 })
}
