package transport

import (
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// TestShares: shares take turns, a packet each, whatever the number of their QPs, also to one peer, to which the
// messages of one share go one after the other. A share that has nothing more to send leaves its turns to the others.
func TestShares(t *testing.T) {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 2, HostsPerToR: 1})
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(Config{Fabric: f, Host: 0, MTU: 1000, LineRate: 400 * fabric.Gbps}, nil)
	if err != nil {
		t.Fatal(err)
	}
	const greedy, packets = 100, 20
	open := func(id QP, share uint16, packets int64) {
		t.Helper()
		if err := e.Open(0, Message{QP: id, ID: uint64(id), Dst: 1, Bytes: packets * 1000, Share: share}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range QP(greedy) {
		open(1+i, 7, packets)
	}
	open(1000, 2, packets)
	open(2000, 0, packets/2)
	var buf [MaxHeader]byte
	sent := map[QP]int{}
	for n, now := 0, fabric.Time(0); sent[1000] < packets; now += fabric.Microsecond {
		frame, ok := e.Next(now, buf[:])
		if !ok {
			t.Fatalf("after %d packets nothing is to be sent", n)
		}
		sent[frame.QP]++
		n++
		switch one, half := sent[1000], sent[2000]; {
		case half < packets/2 && n > 3*(one+1), half == packets/2 && n > 3*half+2*(one-half+1):
			t.Fatalf("%d packets: %d of the share with one QP, %d of that with half as many", n, one, half)
		}
	}
}
