package observe

import (
	"slices"
	"sync"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// maxReasons and maxReason bound what is kept of a switch's report: the number of reasons, and the bytes of a reason
// with its remedy.
const (
	maxReasons = 64
	maxReason  = 1 << 10
)

// Drop is the number of packets that a switch has dropped for one reason.
type Drop struct {
	Reason  string `json:"reason"`
	Packets uint64 `json:"packets"` // packets dropped since the switch started
	New     uint64 `json:"new"`     // of these, since the controller's previous reading
	// when the count last grew; nil: not since the controller started to read it
	Grew   *time.Time `json:"grew,omitempty"`
	Remedy string     `json:"remedy,omitempty"`
}

// Drops stores, by switch, the reasons for which packets were dropped and their numbers.
type Drops struct {
	mu       sync.Mutex
	bySwitch map[fabric.NodeID]*dropsOf
}

type dropsOf struct {
	reasons []Drop
	err     string // why the last read of the switch failed
	asked   bool
}

// Store stores a switch's report. A count lower than before means that the switch has restarted. Nothing counts as new
// after the first report.
func (d *Drops) Store(id fabric.NodeID, now time.Time, said []Drop) {
	said = slices.DeleteFunc(said, func(r Drop) bool { return len(r.Reason)+len(r.Remedy) > maxReason })
	said = slices.Clone(said[:min(len(said), maxReasons)])
	d.mu.Lock()
	defer d.mu.Unlock()
	x := d.dropsAt(id)
	before := map[string]Drop{}
	for _, r := range x.reasons {
		before[r.Reason] = r
	}
	for i := range said {
		r, b := &said[i], before[said[i].Reason]
		r.New, r.Grew = 0, b.Grew
		if r.Packets > b.Packets {
			r.New = r.Packets - b.Packets
		} else if r.Packets < b.Packets {
			r.New = r.Packets
		}
		if !x.asked {
			r.New = 0
		}
		if r.New > 0 {
			r.Grew = &now
		}
	}
	x.reasons, x.err, x.asked = said, "", true
}

func (d *Drops) dropsAt(id fabric.NodeID) *dropsOf {
	if d.bySwitch == nil {
		d.bySwitch = map[fabric.NodeID]*dropsOf{}
	}
	if d.bySwitch[id] == nil {
		d.bySwitch[id] = &dropsOf{}
	}
	return d.bySwitch[id]
}

// StoreError stores the error of asking a switch.
func (d *Drops) StoreError(id fabric.NodeID, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dropsAt(id).err = err.Error()
}

// ReasonsOf returns a switch's reasons, and the error of the last request. The reasons are never changed after they are
// stored.
func (d *Drops) ReasonsOf(id fabric.NodeID) (reasons []Drop, failed string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if x := d.bySwitch[id]; x != nil {
		return x.reasons, x.err
	}
	return nil, ""
}
