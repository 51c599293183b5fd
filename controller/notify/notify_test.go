package notify

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	"github.com/ethereal-fabric/ethereal/fabric/statepb"
)

// listener is a receiver: what it knows survives its stream.
type listener struct {
	instance string
	epoch    uint64
	links    map[uint32]*statepb.LinkState
	w        *Watcher
}

func (a *listener) hello() *statepb.Hello {
	return &statepb.Hello{Instance: a.instance, LastEpoch: a.epoch}
}

// TestAgentsConverge lets agents connect, drop their streams, stall and read at
// random, and sees that each that reads to the end knows the truth, epochs never
// fall or skip, and snapshots come only where the history does not reach.
func TestAgentsConverge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		history := rapid.IntRange(1, 8).Draw(t, "history")
		h, err := NewHub(&statepb.Update{Instance: "a", Snapshot: true, Epoch: 3, Links: []*statepb.LinkState{{Link: 9, Epoch: 3}}}, history)
		if err != nil {
			t.Fatal(err)
		}
		truth := map[uint32]*statepb.LinkState{9: {Link: 9, Epoch: 3}}
		agents := make([]listener, 3)
		for i := range agents {
			agents[i] = listener{links: map[uint32]*statepb.LinkState{}, w: h.Watch(&statepb.Hello{})}
		}
		read := func(a *listener) bool {
			behind, known := a.w.Behind(), a.instance != ""
			u, ok := a.w.Next()
			if !ok {
				if behind != 0 {
					t.Fatalf("%d behind, but nothing to read", behind)
				}
				return false
			}
			if wantSnapshot := !known || behind > uint64(history) || a.epoch < 3; u.GetSnapshot() != wantSnapshot {
				t.Fatalf("snapshot %v, %d behind of a history of %d", u.GetSnapshot(), behind, history)
			}
			if !u.GetSnapshot() && u.GetEpoch() != a.epoch+1 {
				t.Fatalf("epoch %d after %d", u.GetEpoch(), a.epoch)
			}
			a.instance, a.epoch = u.GetInstance(), Apply(a.links, u)
			return true
		}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			a := &agents[rapid.IntRange(0, len(agents)-1).Draw(t, "listener")]
			switch rapid.SampledFrom([]string{"change", "change", "read", "reconnect"}).Draw(t, "step") {
			case "change":
				l := rapid.Uint32Range(0, 4).Draw(t, "link")
				s := &statepb.LinkState{Link: l, Epoch: truth[l].GetEpoch() + 1}
				s.Up = s.Epoch%2 == 0
				truth[l] = s
				if err := h.Publish(&statepb.Update{Instance: "a", Epoch: h.Epoch() + 1, Links: []*statepb.LinkState{s}}); err != nil {
					t.Fatal(err)
				}
			case "read":
				read(a)
			case "reconnect":
				a.w = h.Watch(a.hello())
			}
		}
		for i := range agents {
			for read(&agents[i]) {
			}
			if diff := cmp.Diff(truth, agents[i].links, protocmp.Transform()); diff != "" || agents[i].epoch != h.Epoch() {
				t.Fatalf("listener %d at epoch %d of %d (-truth +listener):\n%s", i, agents[i].epoch, h.Epoch(), diff)
			}
		}
	})
}

func TestWatchStrangers(t *testing.T) {
	h, err := NewHub(&statepb.Update{Instance: "b", Epoch: 5}, 4)
	if err != nil {
		t.Fatal(err)
	}
	for _, hello := range []*statepb.Hello{
		nil, {}, {Instance: "a", LastEpoch: 5}, {Instance: "b", LastEpoch: 6}, {Instance: "b", LastEpoch: 4},
	} {
		if u, ok := h.Watch(hello).Next(); !ok || !u.GetSnapshot() {
			t.Errorf("%v gets %v", hello, u)
		}
	}
	if u, ok := h.Watch(&statepb.Hello{Instance: "b", LastEpoch: 5}).Next(); ok {
		t.Errorf("an listener that has everything gets %v", u)
	}
	if hb := h.Heartbeat(); hb.GetEpoch() != 5 || !hb.GetHeartbeat() || hb.GetInstance() != "b" {
		t.Errorf("heartbeat %v", hb)
	}
}

func TestPublishOrder(t *testing.T) {
	h, err := NewHub(&statepb.Update{Instance: "b", Epoch: 5}, 4)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range []*statepb.Update{
		{Instance: "b", Epoch: 5}, {Instance: "b", Epoch: 7}, {Instance: "a", Epoch: 6}, {Instance: "b", Epoch: 6, Snapshot: true},
	} {
		if err := h.Publish(u); !errors.Is(err, ErrOrder) || h.Epoch() != 5 {
			t.Errorf("%v: %v", u, err)
		}
	}
	if _, err := NewHub(nil, 0); err == nil {
		t.Error("a hub without history")
	}
}
