package sim

import (
	"github.com/ethereal-fabric/ethereal/fabric"
)

// control is a function of the world's that is to run at a time.
type control struct {
	at       fabric.Time
	sequence uint32 // in which it was scheduled
	f        func(fabric.Time)
}

// Before orders functions by time, then as they were scheduled.
func (c *control) Before(o *control) bool {
	return c.at < o.at || c.at == o.at && c.sequence < o.sequence
}
