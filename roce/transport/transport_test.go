package transport

import (
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// oneByOne is a rate control of nothing but a window, which every ACK opens by a packet
// up to a most, and a loss shuts to one: what a control asks of the seams beyond those
// that there are.
type oneByOne struct {
	lineRate
	most   int32
	losses int
}

func (c *oneByOne) open(q *qp) { q.cwnd = 1 }

func (c *oneByOne) acked(_ fabric.Time, q *qp, _ *packet, packets, _ int32, _ bool) {
	q.cwnd = min(q.cwnd+packets, c.most)
}

func (c *oneByOne) wentBack(q *qp) {
	q.cwnd = 1
	c.losses++
}

// A rate control's window holds with every transport, with and without loss, and all
// arrives.
func TestControlledWindow(t *testing.T) {
	const most, packets = 5, 200
	for _, r := range []Receiver{GoBackN, SelectiveRepeat, Ideal} {
		for _, lost := range []int{0, 17} { // of the data, from 1
			w := newWorld(t, 2, func(c *Config) { c.Receiver, c.MTU = r, 1000 })
			c := &oneByOne{most: most}
			e := w.hosts[0].e
			e.control.pacer = c
			sent, peak := 0, int32(0)
			w.fate = func(_ fabric.Time, _ []byte, control bool) fate {
				if !control {
					q := e.qps[0]
					onTheWay := q.sndNxt - q.sndUna
					if r != GoBackN {
						onTheWay = q.state.selective.inFlight
					}
					peak = max(peak, onTheWay)
					if sent++; sent == lost {
						return fate{}
					}
				}
				return fate{copies: []fabric.Time{0}}
			}
			w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: packets * 1000})
			w.run(never)
			if w.hosts[1].delivered[1] != packets*1000 || peak != most {
				t.Errorf("%v, packet %d lost: %d bytes arrived, %d packets on the way at most; want %d",
					r, lost, w.hosts[1].delivered[1], peak, most)
			}
			if r == GoBackN && lost > 0 && c.losses != 1 {
				t.Errorf("went back %d times", c.losses)
			}
		}
	}
}
