package controller

import (
	"flag"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
)

var scaleK = flag.String("scale.k", "8", "fat-trees of TestScale, with commas between")

// TestScale measures what the tables of a fabric cost: computing all of them, their
// memory, and what one link's change takes, medians of many. For the numbers of a report:
//
//	go test ./controller -run TestScale -v -args -scale.k=8,16,24,32,48,64
func TestScale(t *testing.T) {
	t.Log("| k | switches | hosts | entries | a switch | full compute | memory | ToR uplink | aggregation uplink | ... with 1 % down | ... with 1 % down |")
	for text := range strings.SplitSeq(*scaleK, ",") {
		k, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		f := mustFabric(t, fabric.Spec{Kind: fabric.KindFatTree, K: k})
		c := mustCore(t, testConfig(f))
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := time.Now()
		tables := make([][]Entry, f.Switches())
		entries := 0
		for i := range tables {
			tables[i] = c.Desired(fabric.NodeID(f.Hosts() + i))
			entries += len(tables[i])
		}
		full := time.Since(began)
		runtime.GC()
		runtime.ReadMemStats(&after)
		held := after.HeapAlloc - before.HeapAlloc
		runtime.KeepAlive(tables) // up to here

		var cells []string
		for _, failures := range []bool{false, true} {
			if failures {
				failOnePercent(t, c, f)
			}
			for _, name := range []string{"tor0-agg0", "agg0-core0"} {
				took, updates := median(t, c, name)
				cells = append(cells, took.Round(10*time.Microsecond).String()+", "+strconv.Itoa(updates)+" updates")
			}
		}
		t.Logf("| %d | %d | %d | %d | %d | %v | %d MB | %s |", k, f.Switches(), f.Hosts(), entries, entries/f.Switches(),
			full.Round(100*time.Microsecond), held>>20, strings.Join(cells, " | "))
	}
}

// median takes a link down and up again and again, and returns the median time until
// the updates are known, and how many they are when it goes down.
func median(t *testing.T, c *Core, name string) (took time.Duration, updates int) {
	t.Helper()
	id, err := c.f.LinkByName(name)
	if err != nil {
		t.Fatal(err)
	}
	var times []time.Duration
	for i := range 42 {
		up := i%2 == 1
		began := time.Now()
		setLink(t, c, id, up)
		writes := c.Ready().Writes
		if i > 1 { // what comes first finds nothing known
			times = append(times, time.Since(began))
		}
		if !up {
			updates = 0
			for _, d := range writes {
				updates += len(d.Updates)
			}
		}
	}
	slices.Sort(times)
	return times[len(times)/2], updates
}

// failOnePercent takes one in a hundred links between switches down.
func failOnePercent(t *testing.T, c *Core, f *fabric.Fabric) {
	t.Helper()
	for l := f.Hosts() + 50; l < f.Links(); l += 100 {
		setLink(t, c, fabric.LinkID(l), false)
	}
	c.Ready()
}
