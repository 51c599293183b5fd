package hostagent

import (
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// BenchmarkAllToAll posts and finishes what one of 512 ranks sends in a direct
// all-to-all: 511 flows to 32 ToRs.
func BenchmarkAllToAll(b *testing.B) {
	f := mustFabric(b, specs[2])
	c := mustCore(b, Config{Fabric: f})
	batch := allToAll(f, 0, 1<<15)
	b.ReportAllocs()
	pieces := 0
	for b.Loop() {
		if err := c.Post(0, batch); err != nil {
			b.Fatal(err)
		}
		open := c.Ready().Open
		pieces = len(open)
		for _, p := range open {
			c.Done(0, p.QP)
		}
	}
	b.ReportMetric(float64(pieces), "pieces/op")
}

// BenchmarkSplit is the arithmetic alone, the worst case of 16 paths.
func BenchmarkSplit(b *testing.B) {
	sizes := equal(15, 1<<20)
	var cuts []Cut
	b.ReportAllocs()
	for b.Loop() {
		cuts = Split(cuts[:0], sizes, 16)
	}
	b.ReportMetric(float64(len(cuts)), "pieces/op")
}

// BenchmarkLinkDownUp flips the pieces of an all-to-all off an uplink and back.
func BenchmarkLinkDownUp(b *testing.B) {
	f := mustFabric(b, specs[2])
	c := mustCore(b, Config{Fabric: f})
	if err := c.Post(0, allToAll(f, 0, 1<<15)); err != nil {
		b.Fatal(err)
	}
	c.Ready()
	link, err := f.LinkByName("tor0-agg0")
	if err != nil {
		b.Fatal(err)
	}
	u := &statepb.Update{Links: []*statepb.LinkState{{Link: uint32(link), Up: true}}}
	b.ReportAllocs()
	flips := 0
	for b.Loop() {
		u.Links[0].Epoch++
		u.Links[0].Up = !u.Links[0].Up
		c.Update(0, u)
		flips = len(c.Ready().Flip)
	}
	b.ReportMetric(float64(flips), "flips/op")
}

// BenchmarkQuenchFlood is what a forged quench costs that is not believed.
func BenchmarkQuenchFlood(b *testing.B) {
	f := mustFabric(b, specs[2])
	c := mustCore(b, Config{Fabric: f})
	if err := c.Post(0, allToAll(f, 0, 1<<15)); err != nil {
		b.Fatal(err)
	}
	q := frame.Quench{Dst: f.HostAddr4(500), Switch: f.ToRID(0), Port: 17}
	b.ReportAllocs()
	now := fabric.Time(0)
	for b.Loop() {
		q.Epoch++
		c.Quench(now, q)
	}
}

func BenchmarkResponderLabel(b *testing.B) {
	f := mustFabric(b, specs[2])
	c := mustCore(b, Config{Fabric: f})
	for b.Loop() {
		c.ResponderLabel(0, 500, 5, false)
	}
}
