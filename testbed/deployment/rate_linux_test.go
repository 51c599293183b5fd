package deployment

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
	"github.com/ethereal-fabric/ethereal/p4switch/port/porttest"
)

// tc asks iproute2 what an interface has.
func tc(t *testing.T, args ...string) string {
	t.Helper()
	systemtest.Only(t)
	out, err := exec.Command("tc", args...).CombinedOutput()
	if err != nil {
		t.Skipf("tc %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// A limit is what tc says the kernel has, by a bucket or by the class that a
// TCLink made, and is gone when it ends.
func TestLimiter(t *testing.T) {
	ns := porttest.Enter(t)
	ns.Veth(t, "a", "b", 1500)
	var l limiter
	for _, c := range []struct {
		name, show, limited, healed string
		prepare                     []string
	}{
		{"bucket", "qdisc", "rate 500Kbit", "noqueue", nil},
		{"class", "class", "rate 500Kbit", "rate 10Mbit", []string{
			"qdisc add dev a root handle 5: htb default 1", "class add dev a parent 5:0 classid 5:1 htb rate 10mbit burst 15k",
		}},
	} {
		for _, command := range c.prepare {
			tc(t, strings.Fields(command)...)
		}
		for range 2 { // the second takes the place of the first
			if err := l.set("a-b", []string{"a"}, 500*fabric.Kbps); err != nil {
				t.Fatal(c.name, err)
			}
		}
		if got := tc(t, c.show, "show", "dev", "a"); !strings.Contains(got, c.limited) {
			t.Errorf("%s: %s has no %q", c.name, got, c.limited)
		}
		if err := l.set("a-b", nil, 0); err != nil {
			t.Fatal(c.name, err)
		}
		if got := tc(t, c.show, "show", "dev", "a"); !strings.Contains(got, c.healed) {
			t.Errorf("%s: %s has no %q", c.name, got, c.healed)
		}
	}
	tc(t, strings.Fields("qdisc replace dev b root handle 9: tbf rate 1mbit burst 20000 limit 50000")...)
	if err := l.set("a-b", []string{"b"}, fabric.Mbps); err == nil || !strings.Contains(err.Error(), "its root discipline is tbf") {
		t.Errorf("a discipline that is somebody else's: %v", err)
	}
}
