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

var scaleK = flag.String("scale.k", "8", "fat-trees of BenchmarkScale, with commas between")

// BenchmarkScale is what the tables of a fabric cost: computing all of them, their
// memory, and what one link's change takes, medians of many. For the numbers of a report:
//
//	go test ./controller -run '^$' -bench Scale -benchtime 1x -args -scale.k=8,16,24,32,48,64
func BenchmarkScale(b *testing.B) {
	for text := range strings.SplitSeq(*scaleK, ",") {
		k, err := strconv.Atoi(text)
		if err != nil {
			b.Fatal(err)
		}
		b.Run("k="+text, func(b *testing.B) {
			for b.Loop() {
				scale(b, k)
			}
		})
	}
}

func scale(b *testing.B, k int) {
	f := mustFabric(b, fabric.Spec{Kind: fabric.KindFatTree, K: k})
	c := mustCore(b, testConfig(f))
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
	b.ReportMetric(float64(time.Since(began).Microseconds())/1000, "full-ms")
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MB")
	runtime.KeepAlive(tables) // up to here
	b.ReportMetric(float64(entries), "entries")
	for _, failures := range []bool{false, true} {
		with := ""
		if failures {
			failOnePercent(b, c, f)
			with = "-1%-down"
		}
		for _, name := range []string{"tor0-agg0", "agg0-core0"} {
			took, updates := median(b, c, name)
			b.ReportMetric(float64(took.Microseconds()), name+with+"-us")
			b.ReportMetric(float64(updates), name+with+"-updates")
		}
	}
}

// median takes a link down and up again and again, and returns the median time until
// the updates are known, and how many they are when it goes down.
func median(t testing.TB, c *Core, name string) (took time.Duration, updates int) {
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
func failOnePercent(t testing.TB, c *Core, f *fabric.Fabric) {
	t.Helper()
	for l := f.Hosts() + 50; l < f.Links(); l += 100 {
		setLink(t, c, fabric.LinkID(l), false)
	}
	c.Ready()
}
