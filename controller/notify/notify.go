package notify

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/ethereal-fabric/ethereal/fabric/statepb"
)

// ErrOrder is wrapped if an update's epoch does not follow that of the previous update.
var ErrOrder = errors.New("notify: update out of order")

// Hub holds the states of all links and the latest updates, for agents that connect or lag.
type Hub struct {
	instance string
	epoch    uint64
	links    map[uint32]*statepb.LinkState
	suspects map[uint32]*statepb.Suspect
	rates    map[uint32]*statepb.LinkRate
	// recentUpdates is a ring: the update of epoch e is at e % len(log). It holds the updates of the epochs above
	// first, up to epoch.
	recentUpdates []*statepb.Update
	first         uint64
	snapshot      *statepb.Update // of epoch, made on demand
}

// NewHub returns a hub with the states of a snapshot. It keeps the last history updates. It returns an error if history
// is below 1.
func NewHub(snapshot *statepb.Update, history int) (*Hub, error) {
	if history < 1 {
		return nil, fmt.Errorf("notify: a history of %d updates; it must be at least 1", history)
	}
	h := &Hub{
		instance: snapshot.GetInstance(), epoch: snapshot.GetEpoch(), first: snapshot.GetEpoch(),
		links: map[uint32]*statepb.LinkState{}, suspects: map[uint32]*statepb.Suspect{}, rates: map[uint32]*statepb.LinkRate{},
		recentUpdates: make([]*statepb.Update, history),
	}
	h.record(snapshot)
	return h, nil
}

// Epoch returns the epoch of the last update.
func (h *Hub) Epoch() uint64 { return h.epoch }

// Publish adds the core's next update, which must not change any more. The error wraps [ErrOrder] for any other update,
// and nothing changes.
func (h *Hub) Publish(u *statepb.Update) error {
	if u.GetSnapshot() || u.GetInstance() != h.instance || u.GetEpoch() != h.epoch+1 {
		return fmt.Errorf("%w: epoch %d of instance %q; wanted is the change with epoch %d of instance %q",
			ErrOrder, u.GetEpoch(), u.GetInstance(), h.epoch+1, h.instance)
	}
	h.epoch++
	h.recentUpdates[h.epoch%uint64(len(h.recentUpdates))] = u
	if h.epoch-h.first > uint64(len(h.recentUpdates)) {
		h.first = h.epoch - uint64(len(h.recentUpdates))
	}
	h.record(u)
	h.snapshot = nil
	return nil
}

func (h *Hub) record(u *statepb.Update) {
	for _, l := range u.GetLinks() {
		h.links[l.GetLink()] = l
	}
	for _, s := range u.GetSuspects() {
		h.suspects[s.GetLink()] = s
	}
	for _, r := range u.GetRates() {
		h.rates[r.GetLink()] = r
	}
}

// Watcher is one agent's position in the sequence of updates.
type Watcher struct {
	hub   *Hub
	epoch uint64 // the last one delivered
	known bool   // the agent has a state of this instance
}

// Watch returns the position of an agent, as its hello message states it.
func (h *Hub) Watch(hello *statepb.Hello) *Watcher {
	w := &Watcher{hub: h}
	if hello.GetInstance() == h.instance && hello.GetLastEpoch() <= h.epoch && h.instance != "" {
		w.epoch, w.known = hello.GetLastEpoch(), true
	}
	return w
}

// Next returns the next update for the agent, or false if it has got all. Updates are shared between agents: do not
// change them.
func (w *Watcher) Next() (*statepb.Update, bool) {
	h := w.hub
	switch {
	case w.known && w.epoch == h.epoch:
		return nil, false
	case w.known && w.epoch >= h.first:
		w.epoch++
		return h.recentUpdates[w.epoch%uint64(len(h.recentUpdates))], true
	}
	w.epoch, w.known = h.epoch, true
	return h.Snapshot(), true
}

// Behind returns the number of updates that the agent has not received yet.
func (w *Watcher) Behind() uint64 {
	if !w.known {
		return w.hub.epoch + 1
	}
	return w.hub.epoch - w.epoch
}

// Snapshot returns the state of every link that ever changed or was suspected, in link order. It is shared: do not
// change it.
func (h *Hub) Snapshot() *statepb.Update {
	if h.snapshot == nil {
		u := &statepb.Update{Epoch: h.epoch, Instance: h.instance, Snapshot: true}
		for _, l := range h.links {
			u.Links = append(u.Links, l)
		}
		for _, x := range h.suspects {
			u.Suspects = append(u.Suspects, x)
		}
		for _, r := range h.rates {
			u.Rates = append(u.Rates, r)
		}
		slices.SortFunc(u.Rates, func(a, b *statepb.LinkRate) int { return cmp.Compare(a.GetLink(), b.GetLink()) })
		slices.SortFunc(u.Suspects, func(a, b *statepb.Suspect) int { return cmp.Compare(a.GetLink(), b.GetLink()) })
		slices.SortFunc(u.Links, func(a, b *statepb.LinkState) int { return cmp.Compare(a.GetLink(), b.GetLink()) })
		h.snapshot = u
	}
	return h.snapshot
}

// Heartbeat returns an update without changes, which tells agents that the controller is running.
func (h *Hub) Heartbeat() *statepb.Update {
	return &statepb.Update{Epoch: h.epoch, Instance: h.instance, Heartbeat: true}
}

// Apply updates an agent's map of link states by an update, as every receiver must: a snapshot replaces it, a change
// adds to it. It returns the new epoch.
func Apply(links map[uint32]*statepb.LinkState, u *statepb.Update) uint64 {
	if u.GetSnapshot() {
		clear(links)
	}
	for _, l := range u.GetLinks() {
		if have, ok := links[l.GetLink()]; !ok || l.GetEpoch() > have.GetEpoch() {
			links[l.GetLink()] = proto.CloneOf(l)
		}
	}
	return u.GetEpoch()
}
