package hostagent

import (
	"slices"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// onDragonfly returns the agent of host 0 of a dragonfly of 9 pods, with a batch to host dst.
func onDragonfly(t *testing.T, dst fabric.NodeID, bytes int64) (*Core, *fabric.Fabric, []Piece) {
	t.Helper()
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindDragonfly, ToRsPerPod: 4, GlobalLinks: 2, HostsPerToR: 2})
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(Config{Fabric: f, Host: 0, Minimal: 6})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Post(0, []Flow{{ID: 1, Dst: dst, Bytes: bytes}}); err != nil {
		t.Fatal(err)
	}
	return c, f, slices.Clone(c.Ready().Open)
}

// TestDragonflySplit: a flow goes by the labels of all pods but the sender's, in proportion to the weights; within the
// pod it has one path.
func TestDragonflySplit(t *testing.T) {
	const share = 9000
	_, f, open := onDragonfly(t, 20, 13*share) // 6 and 7 shares
	minimal := f.Minimal()
	loads := map[fabric.Label]int64{}
	for _, p := range open {
		loads[p.Label] += p.Bytes
	}
	if len(loads) != 8 {
		t.Errorf("%d labels, want 8", len(loads))
	}
	for l, bytes := range loads {
		want := int64(share)
		if l == minimal {
			want = 6 * share
		}
		if pod, ok := f.Through(l, f.ToROf(20)); !ok || pod == 0 || bytes < want-want/100 || bytes > want+want/100 {
			t.Errorf("label %d has %d bytes, want %d", l, bytes, want)
		}
	}
	if _, _, near := onDragonfly(t, 6, 13*share); len(near) != 1 {
		t.Errorf("%d pieces within the pod, want 1", len(near))
	}
}

// TestDragonflyFlips: after any report of a dead link, exactly the pieces whose paths cross it move, to paths that do
// not. A quench or a notice counts only for the direction in which this host's packets cross the link.
func TestDragonflyFlips(t *testing.T) {
	const dst = 20
	for _, how := range []string{"update", "quench", "notice"} {
		_, f, _ := onDragonfly(t, dst, 8<<20)
		src, to := f.ToROf(0), f.ToROf(dst)
		for id := fabric.LinkID(f.HostLinks()); int(id) < f.Links(); id++ {
			link := f.Link(id)
			for _, end := range []fabric.End{link.A, link.B} {
				c, _, open := onDragonfly(t, dst, 8<<20)
				q := frame.Quench{Switch: end.Node, Port: end.Port, Epoch: 1, Dst: f.HostAddr4(dst), Notice: how == "notice"}
				crossed, sent := map[fabric.Label]bool{}, false
				for _, l := range f.PathLabels(src, to) {
					hops, _ := f.Path(nil, src, to, l)
					for _, h := range hops {
						crossed[l] = crossed[l] || h.Link == id
						sent = sent || h.Link == id && h.From == end.Node
					}
				}
				if how == "update" {
					c.Update(1, &statepb.Update{Epoch: 1, Instance: "a", Links: []*statepb.LinkState{{Link: uint32(id), Epoch: 1}}})
				} else if v := c.Quench(1, q); sent && v != Believed || !sent && how == "quench" && v == Believed {
					t.Fatalf("%s about %s from %s: %v; the host sends by it: %v", how, f.LinkName(id), f.Name(end.Node), v, sent)
				}
				if how != "update" && !sent {
					continue
				}
				flips := map[QP]fabric.Label{}
				for _, flip := range c.Ready().Flip {
					flips[flip.QP] = flip.To
				}
				for _, p := range open {
					to, moved := flips[p.QP]
					if moved != crossed[p.Label] || moved && crossed[to] {
						t.Fatalf("%s about %s: the piece of label %d moved: %v, to %d", how, f.LinkName(id), p.Label, moved, to)
					}
				}
			}
		}
	}
}

// TestDragonflyAnswers: the receiver answers by the packet's label, whose pod may be its own: that is the minimal path.
func TestDragonflyAnswers(t *testing.T) {
	c, f, _ := onDragonfly(t, 20, 8<<20)
	own := f.LabelFor(0, 0) // as a packet from host 20 by its minimal path
	if got := c.ResponderLabel(1, 20, own, false); got != own {
		t.Errorf("the answer takes label %d, want %d", got, own)
	}
	hops, _ := f.Path(nil, f.ToROf(0), f.ToROf(20), own)
	c.Update(2, &statepb.Update{Epoch: 1, Instance: "a", Links: []*statepb.LinkState{{Link: uint32(hops[0].Link), Epoch: 1}}})
	got := c.ResponderLabel(3, 20, own, false)
	if f.PathUses(f.ToROf(0), f.ToROf(20), got, hops[0].Link) {
		t.Errorf("the answer takes label %d, over the dead link", got)
	}
}
