package workload

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
)

const someSizes = "# bytes percent\n0 0\n10000 50\n1000000 90\n30000000 100\n"

// TestPoisson: ranks send what the load says, sizes are those of the file, and a seed draws its own messages.
func TestPoisson(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "w.yaml")
	for name, text := range map[string]string{
		"w.yaml":    "poisson: {sizes: sizes.txt, load: 40%, duration: 200ms, ranks: 0..31}",
		"sizes.txt": someSizes,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	const rate = 100 * fabric.Gbps
	load := func(seed uint64) *Program {
		p, err := Load(path, Place{Ranks: 40, Rate: rate, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := load(1)
	all, err := p.Traffic()
	if err != nil {
		t.Fatal(err)
	}
	sum, small, peers := 0.0, 0, map[[2]int]int{}
	for _, s := range all {
		sum += float64(s.Bytes)
		if s.Bytes <= 10_000 {
			small++
		}
		if s.Bytes > 30_000_000 || s.Src == s.Dst || s.Src > 31 || s.Dst > 31 {
			t.Fatalf("message %+v", s)
		}
		peers[[2]int{s.Src, s.Dst}]++
	}
	want := 0.4 * float64(rate) / 8 * 0.2 * 32 // bytes
	if math.Abs(sum/want-1) > 0.05 || math.Abs(float64(small)/float64(len(all))-0.5) > 0.02 || len(peers) != 32*31 {
		t.Errorf("%d messages, %d of them small, between %d pairs, %.3f of the load", len(all), small, len(peers), sum/want)
	}
	if end := p.LongestCompute(); end > 200*fabric.Millisecond || end < 195*fabric.Millisecond {
		t.Errorf("the last message begins at %v", end)
	}
	again, err := load(1).Traffic()
	if err != nil || len(again) != len(all) || again[7] != all[7] {
		t.Errorf("the same seed draws other messages: %v", err)
	}
	if other, err := load(2).Traffic(); err != nil || len(other) == len(all) && other[7] == all[7] || !p.Random {
		t.Errorf("another seed draws the same messages: %v", err)
	}
}

// TestBadPoisson: errors name the key, or the file and the line, and the remedy.
func TestBadPoisson(t *testing.T) {
	for _, c := range []struct{ keys, sizes, want string }{
		{"load: 0, duration: 1ms", someSizes, "poisson.load: no load; write for example 50%"},
		{"load: 2, duration: 1ms", someSizes, "not a share of 0 to 1"},
		{"load: 0.5, duration: 0s", someSizes, "poisson.duration: 0s is outside"},
		{"load: 0.5, duration: 100s, rate: 1Tb/s", someSizes, "messages; at most 200000; use less time or load"},
		{"load: 0.5, duration: 1ms, ranks: '3'", someSizes, "poisson.ranks: a rank alone sends nothing"},
		{"load: 0.5, duration: 1ms, ranks: 0..9", someSizes, "poisson.ranks: rank 9 is not there"},
		{"load: 0.5, duration: 1ms", "0 0\n5 60\n4 100\n", "sizes.txt:3: 4 100 is not above the line before"},
		{"load: 0.5, duration: 1ms", "0 0\n5 60\n", "sizes.txt:2: it ends with 60 percent"},
		{"load: 0.5, duration: 1ms", "5 1\n", "sizes.txt:1: it does not begin with a line of 0 percent"},
		{"load: 0.5, duration: 1ms", "", "it does not begin with"},
		{"load: 0.5, duration: 1ms", "0 0\n1e99 100\n", "no size of at most 2 GiB"},
		{"load: 0.5, duration: 1ms", "0 0\nNaN 100\n", "no size of at most 2 GiB"},
		{"load: 0.5, duration: 1ms", "0 0 0\n", "sizes.txt:1: 3 numbers"},
		{"load: 0.5, duration: 1ms", "0 0\n1000 0.5\n2000 1\n", ""}, // fractions
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "w.yaml")
		for name, text := range map[string]string{"w.yaml": "poisson: {sizes: sizes.txt, " + c.keys + "}", "sizes.txt": c.sizes} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		_, err := Load(path, Place{Ranks: 8, Rate: fabric.Gbps, Seed: 1})
		if c.want == "" != (err == nil) || c.want != "" && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %q: %v, want %q", c.keys, c.sizes, err, c.want)
		}
	}
	if _, err := loadText(t, "poisson: {sizes: none.txt, load: 50%, duration: 1ms, rate: 1Gb/s}", 4); err == nil ||
		!strings.Contains(err.Error(), "none.txt") {
		t.Errorf("a missing file: %v", err)
	}
}

// FuzzDistribution: of whatever file, sizes are within its own.
func FuzzDistribution(f *testing.F) {
	f.Add(someSizes, 50.0)
	f.Add("0 0\n1 1", 0.0)
	f.Fuzz(func(t *testing.T, text string, percent float64) {
		d, err := parseDistribution(text)
		if err != nil || !(percent >= 0 && percent <= 100) {
			return
		}
		if got := float64(d.at(percent)); got < 1 || got > max(1, d[len(d)-1].bytes) || !(d.mean() > 0) {
			t.Errorf("%v %% is %v bytes, mean %v", percent, got, d.mean())
		}
	})
}
