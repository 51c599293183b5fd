package hostagent

import (
	"slices"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// askedPath returns a core of h0 whose queue pair 1 to h4 is silent: its path is asked, and another path has answered.
func askedPath(t *testing.T, cfg Config) *Core {
	cfg.Fabric, cfg.Asks, cfg.Unshuffled = mustFabric(t, fabric.Spec{Kind: fabric.KindFatTree, K: 4}), true, true
	cfg.StartJitter = -1
	c := mustCore(t, cfg)
	if err := c.Post(0, []Flow{{Dst: 4, Bytes: 400000}}); err != nil {
		t.Fatal(err)
	}
	c.Ready()
	c.Overdue(fabric.Millisecond, 1, Overdue{Since: fabric.Millisecond})
	ask := c.Ready().Ask
	if len(ask) == 0 {
		t.Fatal("the path is not asked")
	}
	witness := slices.MaxFunc(ask, func(a, b Ask) int { return int(a.ID) - int(b.ID) })
	c.Answered(2*fabric.Millisecond, witness.Dst, witness.ID)
	return c
}

// runTo lets a core meet its deadlines until a time.
func runTo(c *Core, end fabric.Time) {
	for at, ok := c.Deadline(); ok && at <= end; at, ok = c.Deadline() {
		c.Tick(at)
		c.Ready()
	}
	c.Tick(end)
}

// In software a probe costs a switch as much as a packet of data, so a path that is dead is not probed each few round
// trips: the probes of many paths would keep all switches busy.
func TestDeadPathsInSoftwareAreProbedSeldom(t *testing.T) {
	c := askedPath(t, Config{AskWait: 2 * fabric.Second})
	runTo(c, 3*fabric.Second)
	if s := c.Stats(); s.PathsDead != 1 {
		t.Fatalf("%d paths are dead", s.PathsDead)
	}
	before := c.Stats().PathProbes
	runTo(c, 13*fabric.Second)
	if n := c.Stats().PathProbes - before; n < 10 || n > 20 {
		t.Errorf("%d probes in 10 s; want one in half a second", n)
	}
}

// A host that sends slower than its link may send accordingly fewer probes, and does not conclude from probes that it
// could not send.
func TestProbesFollowTheRate(t *testing.T) {
	c := askedPath(t, Config{AskWait: 2 * fabric.Second, Rate: 500 * fabric.Kbps})
	if each := c.questions.probeTime(); each < 100*fabric.Millisecond {
		t.Fatalf("a probe each %v at 500 kb/s", each)
	}
	c.questions.tat = c.questions.probeTime() * (probeBurst + 100) // no more for 100 probes' time
	runTo(c, 10*fabric.Second)
	if s := c.Stats(); s.PathsDead != 0 || s.ProbesHeld == 0 {
		t.Errorf("%d paths are dead, %d probes were held back", s.PathsDead, s.ProbesHeld)
	}
	runTo(c, 30*fabric.Second)
	if s := c.Stats(); s.PathsDead != 1 {
		t.Errorf("%d paths are dead, after they could be asked", s.PathsDead)
	}
}
