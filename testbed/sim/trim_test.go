package sim

import (
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Four hosts send by one uplink, whose queue has room for five packets: what is beyond is
// cut, nothing is dropped, and each packet arrives, whole or as its header. The headers go
// before all data from there on.
func TestTrim(t *testing.T) {
	const payload, packets, wire = 9000, 50, fakeHeader + 9000 + 4
	spec := fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 1, HostsPerToR: 4}
	w := newWorld(t, spec, Config{Trim: 5 * wire})
	for s := range 4 {
		for range packets {
			w.stations[s].orders = append(w.stations[s].orders, order{dst: fabric.NodeID(4 + s), payload: payload})
		}
	}
	w.run(t, Never)
	up := w.SendDirection(w.fab.ToRID(0), 5)
	c := w.Counters(up)
	if c.Trimmed == 0 || c.Dropped != 0 || c.MaxQueue > 5*wire || c.ControlPackets != c.Trimmed || c.DataPackets != 4*packets-c.Trimmed {
		t.Errorf("uplink: %+v", c)
	}
	cut, whole := int64(0), int64(0)
	for s := range 4 {
		seen := make([]int, packets)
		for _, r := range w.stations[4+s].got {
			seen[r.Seq]++
			switch r.Tail {
			case 0:
				cut++
			case payload + 4:
				whole++
			default:
				t.Errorf("a packet with %d bytes behind its header", r.Tail)
			}
		}
		for i, n := range seen {
			if n != 1 {
				t.Errorf("packet %d of host %d arrived %d times", i, s, n)
			}
		}
		if d := w.Counters(w.SendDirection(w.fab.ToRID(1), fabric.PortNo(1+s))); d.Trimmed != 0 || d.ControlPackets+d.DataPackets != packets {
			t.Errorf("link to host %d: %+v", 4+s, d)
		}
	}
	if cut != c.Trimmed || whole != c.DataPackets {
		t.Errorf("%d cut and %d whole arrived; %+v", cut, whole, c)
	}
	if total := w.Totals(); total.DeliveredPayload != whole*payload {
		t.Errorf("%+v", total)
	}
}

// Headers that find no room are dropped.
func TestTrimFull(t *testing.T) {
	const wire = fakeHeader + 9000 + 4
	w := newWorld(t, fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 1, HostsPerToR: 8},
		Config{Buffer: wire + 2*fakeHeader, Alpha: 1 << 16, Trim: wire})
	for s := range 8 {
		for range 50 {
			w.stations[s].orders = append(w.stations[s].orders, order{dst: 8, payload: 9000})
		}
	}
	w.run(t, Never)
	c := w.Counters(w.SendDirection(w.fab.ToRID(0), 9))
	if c.Trimmed == 0 || c.Dropped == 0 || w.Totals().InFlight != 0 {
		t.Errorf("%+v", c)
	}
	for i, r := range w.routers {
		if r.live() != 0 {
			t.Errorf("switch %d: %d handles are not given back", i, r.live())
		}
	}
}
