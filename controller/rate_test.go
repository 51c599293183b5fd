package controller

import (
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// TestPortRate: a link carries what its slower end does, agents are notified when that changes, and tables stay.
func TestPortRate(t *testing.T) {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 2, HostsPerToR: 1})
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(Config{Fabric: f})
	if err != nil {
		t.Fatal(err)
	}
	id, err := f.LinkByName("tor0-spine0")
	if err != nil {
		t.Fatal(err)
	}
	l := f.Link(id)
	for i, step := range []struct {
		end  fabric.End
		rate fabric.Rate
		want fabric.Rate // notified; -1: nothing is
	}{
		{l.A, l.Rate, -1},
		{l.A, 200 * fabric.Gbps, 200 * fabric.Gbps},
		{l.B, 100 * fabric.Gbps, 100 * fabric.Gbps},
		{l.A, 100 * fabric.Gbps, -1},
		{l.B, 0, -1},
		{l.A, l.Rate, 0},
	} {
		if err := c.PortRate(step.end.Node, step.end.Port, step.rate); err != nil {
			t.Fatal(err)
		}
		r := c.Ready()
		switch {
		case len(r.Writes) > 0:
			t.Errorf("step %d: tables are written", i)
		case step.want < 0 && len(r.Notices) > 0:
			t.Errorf("step %d: agents are notified of %v; want nothing", i, r.Notices)
		case step.want >= 0 && (len(r.Notices) != 1 || r.Notices[0].GetRates()[0].GetBitsPerSecond() != uint64(step.want)):
			t.Errorf("step %d: agents are notified of %v; want a rate of %v", i, r.Notices, step.want)
		}
	}
	if got := c.Snapshot().GetRates(); len(got) != 1 || got[0].GetBitsPerSecond() != 0 || got[0].GetEpoch() != 3 {
		t.Errorf("the snapshot has %v; want the link at its full rate, epoch 3", got)
	}
	if err := c.PortRate(l.A.Node, 100, 0); err == nil {
		t.Error("a port that the fabric does not have has a rate")
	}
}
