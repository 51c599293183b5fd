package transport

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// A QP sends by the port that its label names, from its next packet on when it gets another label; an ACK by that of
// its own.
func TestPorts(t *testing.T) {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 2, HostsPerToR: 6, Planes: 3})
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(Config{Fabric: f, Host: 0, MTU: 1000}, &ignore{})
	if err != nil {
		t.Fatal(err)
	}
	label := func(plane int) fabric.Label { return f.LabelFor(plane*f.ToRUplinks(), 0) }
	for qp := range QP(4) {
		if err := e.Open(0, Message{QP: qp + 1, ID: uint64(qp), Dst: 6 + fabric.NodeID(qp), Bytes: 3000, Label: label(1)}); err != nil {
			t.Fatal(err)
		}
	}
	for qp, plane := range map[QP]int{1: 2, 3: 0, 4: 2} { // the first in turn, one between others, and the last
		if err := e.Relabel(qp, label(plane)); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Open(0, Message{QP: 5, ID: 5, Dst: 11, Bytes: 1000, Label: label(1)}); err != nil {
		t.Fatal(err)
	}
	e.queueControl(controlPacket{dst: 2, label: label(2)})
	got := make([]map[QP]int, f.Planes())
	for port := range got {
		got[port] = map[QP]int{}
	}
	for now := fabric.Time(0); now < 10*fabric.Microsecond; now += fabric.Microsecond {
		for port := range got {
			var buf [MaxHeader]byte
			for {
				frame, ok := e.NextBy(port, now, buf[:])
				if !ok {
					break
				}
				if l := e.stack.label(buf[:]); f.PlaneOf(l) != port {
					t.Fatalf("label %d leaves by port %d", l, port)
				}
				got[port][frame.QP]++
			}
		}
	}
	want := []map[QP]int{{3: 3}, {2: 3, 5: 1}, {0: 1}}
	want[2][1], want[2][4] = 3, 3
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("packets by port and queue pair (-want +got):\n%s", d)
	}
}
