package frame

import "github.com/ethereal-fabric/ethereal/fabric"

// RNICs use source ports from [fabric.FirstLabelPort] up; the top six bits of a flow label distinguish ours from a host
// stack's own.
const (
	flowLabelBase = 0xFC000
	labelMask     = 1<<fabric.LabelBits - 1
)

// SourcePort returns the UDP source port that carries label l. It is what rdma-core's ibv_flow_label_to_udp_sport
// returns for l.
func SourcePort(l fabric.Label) uint16 { return fabric.FirstLabelPort | uint16(l)&labelMask }

// LabelOfSourcePort returns the path label that a UDP source port carries. ok is false outside the range of labels. The
// label need not name a path of the fabric.
func LabelOfSourcePort(port uint16) (l fabric.Label, ok bool) {
	return fabric.Label(port & labelMask), port >= fabric.FirstLabelPort
}

// FlowLabel returns the IPv6 flow label, 20 bits, that carries path label l.
func FlowLabel(l fabric.Label) uint32 { return flowLabelBase | uint32(l)&labelMask }

// LabelOfFlowLabel returns the path label that an IPv6 flow label carries. ok is false outside the range of labels. The
// label need not name a path of the fabric.
func LabelOfFlowLabel(fl uint32) (l fabric.Label, ok bool) {
	return fabric.Label(fl & labelMask), fl&^labelMask == flowLabelBase
}
