package balance

import (
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// TestValiant: in a dragonfly of 4 pods, spray takes the labels of all pods but the sender's alike, and with mode:
// valiant not the destination's; within the pod there is one path. In a Clos it is spray.
func TestValiant(t *testing.T) {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindDragonfly, ToRsPerPod: 3, GlobalLinks: 1, HostsPerToR: 2})
	if err != nil {
		t.Fatal(err)
	}
	c := config(t)
	c.Fabric, c.Host = f, 0
	const near, far = 3, 8 // pods 0 and 1
	minimal := f.Minimal()
	for mode, want := range map[string]map[fabric.Label]bool{
		"random": {2: true, 3: true, minimal: true}, "round-robin": {2: true, 3: true, minimal: true}, "valiant": {2: true, 3: true},
	} {
		h, qp := beginAs(t, c, Spray, map[string]string{"mode": mode}, far, near)
		for l := range minimal + 1 {
			n := count(draw(h, qp[0], 900))[l]
			if want[l] != (n > 900/4) || !want[l] && n > 0 {
				t.Errorf("%s: label %d %d times of 900", mode, l, n)
			}
		}
		if m := count(draw(h, qp[1], 9)); m[minimal] != 9 {
			t.Errorf("%s: labels within the pod: %v", mode, m)
		}
	}
	h, qp := begin(t, Spray, map[string]string{"mode": "valiant"}, otherPod)
	if m := count(draw(h, qp[0], 4000)); len(m) != 4 {
		t.Errorf("in a Clos: %v", m)
	}
}
