package hostagent

import (
	"errors"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
)

// restarted returns a core that has forgotten all, and the link of its label 1.
func restarted(t *testing.T) (*Core, fabric.LinkID) {
	t.Helper()
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindFatTree, K: 4})
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(Config{Fabric: f, Host: 0})
	if err != nil {
		t.Fatal(err)
	}
	link, err := f.LinkByName("agg0-core1")
	if err != nil {
		t.Fatal(err)
	}
	return c, link
}

func TestResume(t *testing.T) {
	c, link := restarted(t)
	a, err := c.Resume(0, Flow{Dst: 15, Bytes: 10}, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	if r := c.Ready(); len(r.Open)+len(r.Flip) != 0 {
		t.Errorf("resumed on a good path: %+v", r)
	}
	c.Update(1, &statepb.Update{Epoch: 1, Links: []*statepb.LinkState{{Link: uint32(link), Epoch: 1}}})
	if r := c.Ready(); len(r.Flip) != 1 || r.Flip[0].QP != a || r.Flip[0].From != 1 {
		t.Errorf("its path died: %+v", r)
	}
	b, err := c.Resume(2, Flow{Dst: 14, Bytes: 10}, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	if r := c.Ready(); len(r.Open) != 0 || len(r.Flip) != 1 || r.Flip[0].QP != b || r.Flip[0].From != 1 {
		t.Errorf("resumed on a dead path: %+v", r)
	}
	if _, err := c.Resume(3, Flow{Dst: 1, Bytes: 10}, 77, 77); err != nil {
		t.Errorf("under the own ToR: %v", err)
	}
	for _, x := range []struct {
		f Flow
		l fabric.Label
	}{{Flow{Dst: 15, Bytes: 1}, 999}, {Flow{Dst: 0, Bytes: 1}, 0}, {Flow{Dst: 99, Bytes: 1}, 0}, {Flow{Dst: 15}, 0}} {
		if _, err := c.Resume(4, x.f, x.l, x.l); !errors.Is(err, ErrFlow) {
			t.Errorf("%+v: %v", x, err)
		}
	}
	if _, err := c.Resume(4, Flow{Dst: 15, Bytes: 1}, 0, 999); !errors.Is(err, ErrFlow) {
		t.Errorf("a home that is no path: %v", err)
	}
	c.Done(5, a)
	c.Done(5, b)
	if c.Live() != 1 {
		t.Errorf("%d live, want 1", c.Live())
	}
}

// TestResumeMoved takes over a queue pair that is not at home: it stays where it
// is, and returns with the link.
func TestResumeMoved(t *testing.T) {
	c, link := restarted(t)
	word := func(epoch uint64) *statepb.Update {
		return &statepb.Update{Epoch: epoch, Links: []*statepb.LinkState{{Link: uint32(link), Epoch: epoch, Up: epoch%2 == 0}}}
	}
	c.Update(0, word(1))
	qp, err := c.Resume(0, Flow{Dst: 15, Bytes: 10}, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	if r := c.Ready(); len(r.Open)+len(r.Flip) != 0 {
		t.Errorf("resumed away from a dead home: %+v", r)
	}
	c.Update(1, word(2))
	if r := c.Ready(); len(r.Flip) != 1 || r.Flip[0] != (Flip{QP: qp, From: 2, To: 1, Reason: Return}) {
		t.Errorf("the link is back: %+v", r)
	}
}
