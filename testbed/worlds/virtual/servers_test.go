package virtual

import (
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// servedRun returns a run of four servers of four GPUs.
func servedRun(t *testing.T, s scenario.Servers, c scenario.Collective, schemeName string) scenario.Run {
	t.Helper()
	sc := scenario.Default()
	sc.Name, sc.Servers = "servers", s
	sc.Fabric = fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 4, Spines: 4, HostsPerToR: 4}
	sc.Collectives, sc.Schemes = []scenario.Collective{c}, []scenario.Scheme{{Name: schemeName}}
	sc.Deadline = 10 * fabric.Millisecond
	runs, err := sc.Expand()
	if err != nil {
		t.Fatal(err)
	}
	return runs[0]
}

// TestServers: every collective ends, no earlier than its bound, and the spines
// carry nothing when rails are joined inside servers.
func TestServers(t *testing.T) {
	oneGoroutine(t)
	lab := newLab(t)
	all := []scenario.Servers{
		{GPUs: 4}, {GPUs: 2},
		{GPUs: 4, Wiring: scenario.Rail},
		{GPUs: 4, Wiring: scenario.Rail, CrossRail: scenario.ByServer},
		{GPUs: 4, Wiring: scenario.Rail, CrossRail: scenario.ByServer, Internal: fabric.LinkSpec{Rate: 50 * fabric.Gbps, Delay: fabric.Microsecond}},
		{GPUs: 2, Wiring: scenario.Rail, CrossRail: scenario.ByServer},
	}
	if testing.Short() {
		all = all[4:5]
	}
	for _, s := range all {
		for _, c := range []scenario.Collective{
			{Kind: "all-to-all", Bytes: 1e6},
			{Kind: "all-reduce", Algorithm: "ring", Bytes: 1e6},
			{Kind: "all-reduce", Algorithm: "halving-doubling", Bytes: 1e6},
			{Kind: "all-reduce", Algorithm: "double-binary-tree", Bytes: 1e6},
		} {
			run := servedRun(t, s, c, "ethereal")
			r := mustRun(t, lab, run)
			if !r.Finished || *r.CCT < *r.Bound {
				t.Errorf("%+v, %v: finished %v, CCT %v us, bound %v us", s, c, r.Finished, r.CCT, *r.Bound)
				continue
			}
			// Halving-doubling's partners are in the server or on the rail.
			alone := s.GPUs == 4 && (s.CrossRail == scenario.ByServer || s.Wiring == scenario.Rail && c.Algorithm == "halving-doubling")
			if alone != (r.UplinkBytesMax == 0) {
				t.Errorf("%+v, %v: an uplink carries %d bytes", s, c, r.UplinkBytesMax)
			}
		}
	}
}

// TestServersByHand: two GPUs of a server exchange a message over its links
// alone, and one that changes rails does so before it is sent.
func TestServersByHand(t *testing.T) {
	lab := newLab(t)
	link := fabric.LinkSpec{Rate: 800 * fabric.Gbps, Delay: fabric.Microsecond}
	inside := servedRun(t, scenario.Servers{GPUs: 4, Internal: link},
		scenario.Collective{Kind: "permutation", Bytes: 1e6, Shift: 1}, "ethereal")
	// Ranks 3, 7, 11 and 15 send to the next server, the others inside.
	r := mustRun(t, lab, inside)
	if r.UplinkBytesMax == 0 || r.QPsPerHostMax != 4 {
		t.Errorf("uplink %d bytes, %d queue pairs on a host; want one message on four paths", r.UplinkBytesMax, r.QPsPerHostMax)
	}
	rails := servedRun(t, scenario.Servers{GPUs: 4, Wiring: scenario.Rail, CrossRail: scenario.ByServer, Internal: link},
		scenario.Collective{Kind: "permutation", Bytes: 1e6, Shift: 5}, "ethereal")
	straight := servedRun(t, scenario.Servers{GPUs: 4, Wiring: scenario.Rail, CrossRail: scenario.ByServer, Internal: link},
		scenario.Collective{Kind: "permutation", Bytes: 1e6, Shift: 4}, "ethereal")
	a, b := mustRun(t, lab, rails), mustRun(t, lab, straight)
	// The same from the moment at which the message has moved: 10 us and 1 us.
	if moved := *a.CCT - *b.CCT; moved < 10.9 || moved > 11.2 {
		t.Errorf("changing rails takes %v us, want 11", moved)
	}
}
