package daemon

import (
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric/statepb"
)

// Merge returns a snapshot of link states: those of view, a snapshot or nil, updated by u. It changes neither. Link
// states of u that are older than those of view, from the same controller, are ignored.
func Merge(view, u *statepb.Update) *statepb.Update {
	out := &statepb.Update{Instance: u.GetInstance(), Epoch: u.GetEpoch(), Snapshot: true}
	old := u.GetSnapshot() && u.GetEpoch() < view.GetEpoch()
	if view == nil || view.GetInstance() != u.GetInstance() || u.GetSnapshot() && !old {
		out.Links, out.Suspects = slices.Clone(u.GetLinks()), slices.Clone(u.GetSuspects())
		return out
	}
	out.Epoch = max(out.Epoch, view.GetEpoch())
	out.Links = newest(view.GetLinks(), u.GetLinks())
	out.Suspects = newest(view.GetSuspects(), u.GetSuspects())
	return out
}

// newest returns each link's state with the highest epoch, in order of the links' first appearance.
func newest[T interface {
	GetLink() uint32
	GetEpoch() uint64
}](old, more []T) []T {
	var out []T
	at := make(map[uint32]int, len(old))
	for _, x := range slices.Concat(old, more) {
		i, known := at[x.GetLink()]
		switch {
		case !known:
			at[x.GetLink()] = len(out)
			out = append(out, x)
		case x.GetEpoch() > out[i].GetEpoch():
			out[i] = x
		}
	}
	return out
}
