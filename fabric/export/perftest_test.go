package export

import (
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// TestFlowLabel folds flow labels as Linux does (rdma_flow_label_to_udp_sport): each becomes its path's source port.
func TestFlowLabel(t *testing.T) {
	for l := range uint32(1 << 14) {
		fl := flowLabel(fabric.Label(l))
		if port := uint16(fl&0x03fff ^ fl&0xfc000>>14 | fabric.FirstLabelPort); port != uint16(fabric.FirstLabelPort|l) {
			t.Fatalf("label %d: flow label %#x becomes port %#x", l, fl, port)
		}
	}
}
