package p4rt

import (
	"cmp"
	"fmt"
	"math"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
)

// ElectionID ranks the controllers of a switch: the connected one with the highest id is primary. Low is the
// controller's own, unique number. High counts take-overs, so that a controller that took over stays primary when
// its predecessor comes back.
type ElectionID struct {
	High, Low uint64
}

// Compare orders election ids.
func (e ElectionID) Compare(f ElectionID) int {
	return cmp.Or(cmp.Compare(e.High, f.High), cmp.Compare(e.Low, f.Low))
}

// Proto returns e as P4Runtime sends it.
func (e ElectionID) Proto() *p4.Uint128 { return &p4.Uint128{High: e.High, Low: e.Low} }

func (e ElectionID) String() string { return fmt.Sprintf("%d:%d", e.High, e.Low) }

func electionOf(u *p4.Uint128) ElectionID { return ElectionID{High: u.GetHigh(), Low: u.GetLow()} }

// bidAbove returns the lowest bid of controller own that is higher than e, or the highest possible bid if there is
// none.
func bidAbove(e ElectionID, own uint64) ElectionID {
	switch {
	case own > e.Low:
		return ElectionID{High: e.High, Low: own}
	case e.High == math.MaxUint64:
		return ElectionID{High: math.MaxUint64, Low: math.MaxUint64}
	}
	return ElectionID{High: e.High + 1, Low: own}
}
