package rocev2

import "github.com/ethereal-fabric/ethereal/fabric"

// Where the label carriers begin. RNICs make source ports of 0xC000 and up; a
// flow label with its top six bits set distinguishes ours from a host stack's own.
const (
	sourcePortBase = 0xC000
	flowLabelBase  = 0xFC000
	labelMask      = 1<<fabric.LabelBits - 1
)

// SourcePort returns the UDP source port that carries label l: what
// ibv_flow_label_to_udp_sport makes of l as a flow label.
func SourcePort(l fabric.Label) uint16 { return sourcePortBase | uint16(l)&labelMask }

// LabelOfSourcePort returns the label a source port carries, if it is in the
// range that carries labels. The label may be none of the fabric's.
func LabelOfSourcePort(port uint16) (l fabric.Label, ok bool) {
	return fabric.Label(port & labelMask), port >= sourcePortBase
}

// FlowLabel returns the IPv6 flow label, 20 bits, that carries label l.
func FlowLabel(l fabric.Label) uint32 { return flowLabelBase | uint32(l)&labelMask }

// LabelOfFlowLabel returns the label an IPv6 flow label carries, if it is in
// the range that carries labels. The label may be none of the fabric's.
func LabelOfFlowLabel(fl uint32) (l fabric.Label, ok bool) {
	return fabric.Label(fl & labelMask), fl&^labelMask == flowLabelBase
}
