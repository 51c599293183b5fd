package hostagent

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
)

// TestAdopt starts an agent again in the middle of its queue pairs: none is
// relabelled, until a link of theirs dies.
func TestAdopt(t *testing.T) {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindFatTree, K: 4})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Fabric: f, Host: 0, Seed: 3}
	first, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	down := &statepb.Update{Instance: "c", Epoch: 1, Snapshot: true, Links: []*statepb.LinkState{{Link: uint32(f.Node(f.ToRID(0)).Link(3)), Epoch: 1}}}
	if err := first.Post(0, []Flow{{1, 5, 1000}, {2, 9, 4000}, {3, 1, 10}}); err != nil {
		t.Fatal(err)
	}
	to := map[QP]fabric.NodeID{}
	for _, p := range first.Ready().Open {
		to[p.QP] = p.Dst
	}
	first.Update(1, down)
	first.Acked(2, 1, 7)
	first.Ready()
	held := first.Held(func(qp QP) fabric.NodeID { return to[qp] })
	if len(held) != len(to) {
		t.Fatalf("%d held, %d opened", len(held), len(to))
	}

	second, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range held {
		if err := second.Adopt(3, h); err != nil {
			t.Fatal(err)
		}
	}
	second.Update(3, down) // as the state file had it
	if r := second.Ready(); len(r.Open)+len(r.Flip) != 0 {
		t.Fatalf("the new agent asks for %+v", r)
	}
	if diff := cmp.Diff(held, second.Held(func(qp QP) fabric.NodeID { return to[qp] })); diff != "" {
		t.Errorf("held (-before +after):\n%s", diff)
	}
	// Another uplink's link dies, between aggregation and core: those on it move.
	second.Update(4, &statepb.Update{Instance: "c", Epoch: 2, Links: []*statepb.LinkState{
		{Link: uint32(f.Node(f.AggID(1)).Link(3)), Epoch: 1}}})
	flips := second.Ready().Flip
	if len(flips) == 0 {
		t.Error("nothing moved off a dead link")
	}
	if err := second.Post(5, []Flow{{4, 5, 10}}); err != nil {
		t.Fatal(err)
	}
	for _, p := range second.Ready().Open {
		if to[p.QP] != 0 {
			t.Errorf("queue pair %d is given twice", p.QP)
		}
	}
	for _, bad := range []Held{{}, {QP: held[0].QP, Dst: 5}, {QP: 99, Dst: 0}, {QP: 99, Dst: 5}, {QP: 99, Dst: 5, Labelled: true, Label: 1 << 13}, {QP: 99, Dst: 5, Left: -1, Labelled: true}} {
		if err := second.Adopt(6, bad); err == nil {
			t.Errorf("%+v was adopted", bad)
		}
	}
}
