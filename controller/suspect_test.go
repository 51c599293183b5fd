package controller

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
)

// TestSuspect notifies agents of a suspicion and leaves the tables alone.
func TestSuspect(t *testing.T) {
	f := mustFabric(t, fabric.Spec{Kind: fabric.KindFatTree, K: 4})
	c := mustCore(t, testConfig(f))
	id := f.Node(f.ToRID(0)).Link(f.Node(f.ToRID(0)).FirstUplink())
	for _, step := range []struct{ suspected, confirmed bool }{{true, false}, {true, false}, {true, true}, {false, false}} {
		if err := c.Suspect(5*fabric.Nanosecond, id, step.suspected, step.confirmed); err != nil {
			t.Fatal(err)
		}
	}
	r := c.Ready()
	if len(r.Writes) > 0 {
		t.Errorf("%d deltas; want none", len(r.Writes))
	}
	suspect := func(epoch uint64, suspected, confirmed bool) *statepb.Suspect {
		return &statepb.Suspect{Link: uint32(id), Suspected: suspected, Confirmed: confirmed, Epoch: epoch, TimeNs: 5}
	}
	instance := c.Snapshot().GetInstance()
	want := []*statepb.Update{
		{Epoch: 1, Instance: instance, Suspects: []*statepb.Suspect{suspect(1, true, false)}},
		{Epoch: 2, Instance: instance, Suspects: []*statepb.Suspect{suspect(2, true, true)}},
		{Epoch: 3, Instance: instance, Suspects: []*statepb.Suspect{suspect(3, false, false)}},
	}
	if d := cmp.Diff(want, r.Notices, protocmp.Transform()); d != "" {
		t.Errorf("notices (-want +got):\n%s", d)
	}
	snapshot := &statepb.Update{Epoch: 3, Instance: instance, Snapshot: true, Suspects: []*statepb.Suspect{suspect(3, false, false)}}
	if d := cmp.Diff(snapshot, c.Snapshot(), protocmp.Transform()); d != "" {
		t.Errorf("snapshot (-want +got):\n%s", d)
	}
	for _, id := range []fabric.LinkID{-1, 0, fabric.LinkID(f.Links())} {
		if err := c.Suspect(0, id, true, false); err == nil {
			t.Errorf("link %d can be suspected", id)
		}
	}
}
