package scenario

import (
	"fmt"
	"math/rand/v2"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Lateness is which ranks of a run begin late, and which post every message late (stragglers).
type Lateness struct {
	begins []fabric.Time // by rank; nil: all at the start
	lags   []fabric.Time // by rank; nil: none
	clear  fabric.Time
}

// Any reports whether any rank begins late or is a straggler.
func (l Lateness) Any() bool { return l.begins != nil || l.lags != nil || l.clear > 0 }

// ClearToSendDelay returns the delay of a message after both its ends have reached its step (clear to send); 0: it is
// sent once its sender has reached it.
func (l Lateness) ClearToSendDelay() fabric.Time { return l.clear }

// StartDelay returns a rank's delay after the start.
func (l Lateness) StartDelay(rank int) fabric.Time {
	if l.begins == nil {
		return 0
	}
	return l.begins[rank]
}

// SendDelay returns a rank's delay before each message that it posts; 0: it is no straggler.
func (l Lateness) SendDelay(rank int) fabric.Time {
	if l.lags == nil {
		return 0
	}
	return l.lags[rank]
}

// Lateness draws the run's late and slow ranks. The same seed draws the same ranks for all schemes.
func (r Run) Lateness() (l Lateness) {
	c, ranks := r.Collective, r.Fabric.Hosts()
	l.clear = c.ClearToSend
	if c.StartSkew > 0 {
		rng := rand.New(rand.NewPCG(r.Seed, 0x1A7E))
		l.begins = make([]fabric.Time, ranks)
		for i := range l.begins {
			l.begins[i] = fabric.Time(rng.Int64N(int64(c.StartSkew) + 1))
		}
	}
	if c.Stragglers > 0 {
		l.lags = make([]fabric.Time, ranks)
		for _, i := range rand.New(rand.NewPCG(r.Seed, 0x1A6)).Perm(ranks)[:c.Stragglers] {
			l.lags[i] = c.StragglerDelay
		}
	}
	return l
}

// minClearToSend is the minimum time of a notification through a fabric. Regions of a simulation need it.
const minClearToSend = fabric.Microsecond

// checkClear checks the key clear_to_send.
func (c Collective) checkClear(path string, f *fabric.Fabric, bad reportError) {
	switch {
	case c.ClearToSend == 0:
	case c.ClearToSend < minClearToSend || c.ClearToSend > fabric.Second:
		bad(path+".clear_to_send", fmt.Sprintf("%v is not a time from %v to 1s", c.ClearToSend, minClearToSend), "write for example 2us")
	case c.Algorithm != "halving-doubling" && c.Algorithm != "ring":
		bad(path+".clear_to_send", "not all ranks send in each step of "+c.Name(), "use algorithm halving-doubling or ring, or remove it")
	case c.Channels > 1:
		bad(path+".clear_to_send", "channels do not wait for each other", "remove it, or channels")
	case f != nil && f.Spec().HostLink.Delay > c.ClearToSend:
		bad(path+".clear_to_send", fmt.Sprintf("%v is less than the delay of a link", c.ClearToSend), "write a round trip of the fabric")
	}
}

// checkLate checks the keys of late ranks. f may be nil: then the number of ranks is unknown.
func (c Collective) checkLate(path string, f *fabric.Fabric, bad reportError) {
	c.checkClear(path, f, bad)
	switch {
	case c.StartSkew < 0 || c.StartSkew > fabric.Second:
		bad(path+".start_skew", fmt.Sprintf("%v is not a time from 0 to 1s", c.StartSkew), "write for example 20us")
	case c.StragglerDelay < 0 || c.StragglerDelay > fabric.Second:
		bad(path+".straggler_delay", fmt.Sprintf("%v is not a time from 0 to 1s", c.StragglerDelay), "write for example 5us")
	case c.Stragglers < 0 || f != nil && c.Stragglers > f.Hosts():
		bad(path+".stragglers", fmt.Sprintf("%d ranks are slow", c.Stragglers), "write how many of the hosts, from 0 to all")
	case c.Stragglers > 0 && c.StragglerDelay == 0:
		bad(path+".straggler_delay", "is missing", "say how much later stragglers post each message, for example 5us")
	case c.Stragglers == 0 && c.StragglerDelay > 0:
		bad(path+".stragglers", "is missing", "say how many ranks are slow, for example 1")
	}
}
