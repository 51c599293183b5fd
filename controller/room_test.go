package controller

import (
	"strconv"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// TestRoom reports how much room a fabric's tables take at the switch that needs the
// most, with all links up and with one in a hundred between switches down: what a
// chip's program has to be compiled with. See docs/tofino.md:
//
//	go test ./controller -run TestRoom -v -args -scale.k=8,16,24,32,48,64
func TestRoom(t *testing.T) {
	t.Log("| k | ToRs | hosts | links down | route_v4 | route_v6 | source_route | ecmp | its shares |")
	for text := range strings.SplitSeq(*scaleK, ",") {
		k, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		f := mustFabric(t, fabric.Spec{Kind: fabric.KindFatTree, K: k})
		c := mustCore(t, testConfig(f))
		tors := f.Hosts() / (k / 2)
		for _, down := range []string{"none", "1 %"} {
			if down != "none" {
				failOnePercent(t, c, f)
			}
			room := roomOf(c)
			t.Logf("| %d | %d | %d | %s | %d | %d | %d | %d | %d |", k, tors, f.Hosts(), down,
				room[RouteV4], room[RouteV6], room[SourceRoute], room[ECMP], room[tableCount])
			if room[RouteV4] == 0 || room[SourceRoute] == 0 || room[ECMP] == 0 {
				t.Error("no switch needs any")
			}
		}
	}
}

// roomOf returns the most entries that a switch has of each table, and under
// tableCount the most shares of its ECMP groups.
func roomOf(c *Core) map[Table]int {
	most := map[Table]int{}
	for i := range c.f.Switches() {
		one := map[Table]int{}
		for _, e := range c.Desired(fabric.NodeID(c.f.Hosts() + i)) {
			one[e.Table]++
			for _, m := range e.Members {
				one[tableCount] += int(m.Weight)
			}
		}
		for table, n := range one {
			most[table] = max(most[table], n)
		}
	}
	return most
}
