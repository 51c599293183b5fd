package frame

import "github.com/ethereal-fabric/ethereal/fabric"

// RNICs use source ports from [fabric.FirstLabelPort] up; the top six bits of a flow label distinguish ours from a host
// stack's own.
const (
	flowLabelBase = 0xFC000
	labelMask     = 1<<fabric.LabelBits - 1
)

// SourcePort returns the UDP source port that carries label l: the result of ibv_flow_label_to_udp_sport for l as a
// flow label.
func SourcePort(l fabric.Label) uint16 { return fabric.FirstLabelPort | uint16(l)&labelMask }

// LabelOfSourcePort returns the label in a source port. ok is false outside the range of labels. The label need not
// exist in the fabric.
func LabelOfSourcePort(port uint16) (l fabric.Label, ok bool) {
	return fabric.Label(port & labelMask), port >= fabric.FirstLabelPort
}

// FlowLabel returns the IPv6 flow label, 20 bits, that carries label l.
func FlowLabel(l fabric.Label) uint32 { return flowLabelBase | uint32(l)&labelMask }

// LabelOfFlowLabel returns the label in an IPv6 flow label. ok is false outside the range of labels. The label need
// not exist in the fabric.
func LabelOfFlowLabel(fl uint32) (l fabric.Label, ok bool) {
	return fabric.Label(fl & labelMask), fl&^labelMask == flowLabelBase
}
