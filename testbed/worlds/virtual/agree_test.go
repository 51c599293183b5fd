package virtual

import (
	"testing"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/p4src"
	"github.com/ethereal-fabric/ethereal/roce/frame"
	"github.com/ethereal-fabric/ethereal/testbed/sim"
)

// TestConstantsAgree compares what packages that may not import one another say
// of the same thing.
func TestConstantsAgree(t *testing.T) {
	for _, tt := range []struct {
		what string
		a, b int64
	}{
		{"quench port", frame.QuenchPort, p4src.QuenchUDPPort},
		{"port of port events", int64(sim.EventPort), p4src.PortEventPort},
		{"never quench", controller.NeverQuench, p4src.NeverQuench},
		{"ICRC", frame.ICRCSize, 4},
	} {
		if tt.a != tt.b {
			t.Errorf("%s: %d and %d", tt.what, tt.a, tt.b)
		}
	}
}
