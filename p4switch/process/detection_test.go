//go:build linux

package process_test

import (
	"slices"
	"testing"
	"time"

	"github.com/ethereal-fabric/ethereal/internal/etherealtest"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
	"github.com/ethereal-fabric/ethereal/p4switch/port/porttest"
)

// How long a subscriber waits for the news that a link lost its carrier: from
// before the far end is taken down, so the kernel's share is included.
func TestDetectionTime(t *testing.T) {
	systemtest.Only(t)
	ns := porttest.Enter(t)
	ns.Veth(t, "h1", "s1", 9000)
	p := startSwitch(t, ns, []string{etherealtest.Binary(t), "switch"}, "s1")
	status := p.operStatus(t, "s1")
	expect(t, status, "UP")
	var took []time.Duration
	for range 20 {
		start := time.Now()
		ns.Up(t, "h1", false)
		expect(t, status, "DOWN")
		took = append(took, time.Since(start))
		ns.Up(t, "h1", true)
		expect(t, status, "UP")
	}
	slices.Sort(took)
	t.Logf("from link down to gNMI: median %v, worst of 20 %v", took[10], took[19])
	if took[10] > time.Second { // no polling of the kernel takes part
		t.Errorf("median %v", took[10])
	}
}
