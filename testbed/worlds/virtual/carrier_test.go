package virtual

import (
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent/usid"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// TestCarriers: a collective whose uplink dies in the middle goes the same way whatever carries its labels: the same
// queue pairs flip, nobody waits for a time-out, and the bytes on the uplinks differ by the headers alone.
func TestCarriers(t *testing.T) {
	oneGoroutine(t)
	s, err := scenario.Load("../../../mininet/experiments/single-link.yaml")
	if err != nil {
		t.Fatal(err)
	}
	lab, flips, packets := newLab(t), 0, 0.0
	for _, c := range scenario.Carriers() {
		s, err := s.Override(scenario.Override{Carrier: scenario.Carrier(c)})
		if err != nil {
			t.Fatal(err)
		}
		runs, err := s.Expand()
		if err != nil {
			t.Fatal(err)
		}
		r := runs[0]
		r.Events[0].At = 250 * fabric.Microsecond
		result := mustRun(t, lab, r)
		if result.CCT == nil || result.Timeouts > 0 || result.Flips == 0 {
			t.Fatalf("%s: CCT %v, %d time-outs, %d flips", c, result.CCT, result.Timeouts, result.Flips)
		}
		// Full packets, but for the repeated ones and each message's last.
		size := float64(r.Scenario.Host.Payload) + float64(headerBytes+ipBytes(r)+framing(r))
		n := result.UplinkBytesMean / size
		t.Logf("%s: %.1f us, %d flips, %.0f packets of %.0f B an uplink", c, *result.CCT, result.Flips, n, size)
		if packets == 0 {
			flips, packets = result.Flips, n
		}
		if diff := n/packets - 1; diff < -0.005 || diff > 0.005 {
			t.Errorf("%s: %.0f packets an uplink, %.0f with %s", c, n, packets, scenario.Carriers()[0])
		}
		if d := result.Flips - flips; d < -flips/10 || d > flips/10 {
			t.Errorf("%s: %d flips, %d with %s", c, result.Flips, flips, scenario.Carriers()[0])
		}
		if extra := ipBytes(r); c == string(scenario.SRv6USID) && extra != ipv4Bytes+usid.HeaderSize {
			t.Errorf("IP headers of %d bytes", extra)
		}
	}
}
