package observe

import (
	"slices"
	"sync"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// mostReasons and mostReason bound what is kept of a switch's word: reasons, and the bytes of one with its remedy.
const (
	mostReasons = 64
	mostReason  = 1 << 10
)

// Drop is a reason for which a switch drops packets, as it says itself.
type Drop struct {
	Reason  string     `json:"reason"`
	Packets uint64     `json:"packets"`        // since the switch began
	Lately  uint64     `json:"lately"`         // of them since it was asked before
	Grew    *time.Time `json:"grew,omitempty"` // when there were more last; none: not since the controller asks
	Remedy  string     `json:"remedy,omitempty"`
}

// Drops is what switches say about the packets that they drop.
type Drops struct {
	mu sync.Mutex
	of map[fabric.NodeID]*dropsOf
}

type dropsOf struct {
	reasons []Drop
	err     string // why the last read of the switch failed
	asked   bool
}

// Take takes what a switch says. A count that went back was begun anew, and the first is not known to grow.
func (d *Drops) Take(id fabric.NodeID, now time.Time, said []Drop) {
	said = slices.DeleteFunc(said, func(r Drop) bool { return len(r.Reason)+len(r.Remedy) > mostReason })
	said = slices.Clone(said[:min(len(said), mostReasons)])
	d.mu.Lock()
	defer d.mu.Unlock()
	x := d.at(id)
	before := map[string]Drop{}
	for _, r := range x.reasons {
		before[r.Reason] = r
	}
	for i := range said {
		r, b := &said[i], before[said[i].Reason]
		r.Lately, r.Grew = 0, b.Grew
		if r.Packets > b.Packets {
			r.Lately = r.Packets - b.Packets
		} else if r.Packets < b.Packets {
			r.Lately = r.Packets
		}
		if !x.asked {
			r.Lately = 0
		}
		if r.Lately > 0 {
			r.Grew = &now
		}
	}
	x.reasons, x.err, x.asked = said, "", true
}

func (d *Drops) at(id fabric.NodeID) *dropsOf {
	if d.of == nil {
		d.of = map[fabric.NodeID]*dropsOf{}
	}
	if d.of[id] == nil {
		d.of[id] = &dropsOf{}
	}
	return d.of[id]
}

// Fail takes why a switch did not answer.
func (d *Drops) Fail(id fabric.NodeID, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at(id).err = err.Error()
}

// Of returns what is known of a switch, and why it did not answer last. Reasons are never changed once they are here.
func (d *Drops) Of(id fabric.NodeID) (reasons []Drop, failed string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if x := d.of[id]; x != nil {
		return x.reasons, x.err
	}
	return nil, ""
}
