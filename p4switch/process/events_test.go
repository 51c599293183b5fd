//go:build linux

package process_test

import (
	"testing"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"

	"github.com/ethereal-fabric/ethereal/p4src"
	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/p4runtime"
	"github.com/ethereal-fabric/ethereal/p4switch/portstate"
	"github.com/ethereal-fabric/ethereal/p4switch/process"
)

// A controller says which ports are uplinks after the switch informed the program
// which ports are down, or says it anew: the bitmap of dead uplinks follows.
func TestUplinksNamedAfterPortEvents(t *testing.T) {
	l := newLab(t, []int{linkFrames, linkFrames, linkFrames}, process.Config{PortEvents: &portstate.EventPackets{Port: p4src.PortEventPort, Ports: p4src.MaxPorts, Append: p4src.AppendPortEvent,
		Register: p4src.PortDown, Tables: p4src.PortTables()}})
	l.d.Do(func(c *p4runtime.Core) {
		if err := c.Ports().SetAdmin(2, false, 0); err != nil {
			t.Error(err)
		}
	})
	if err := l.d.Install(p4src.V1ModelJSON(), p4src.V1ModelP4Info()); err != nil {
		t.Fatal(err)
	}
	uplink := func(typ p4.Update_Type, port, index byte) *p4.Update {
		p := running{info: p4src.V1ModelP4Info()}
		return p.entry(t, typ, "uplink_of_port", exact(port), "set_uplink_index", []byte{index})
	}
	register := func(name string, index int) (value byte) {
		l.d.Inspect(func(sw *interp.Switch) {
			id, ok := sw.Program().RegisterByName(name)
			if !ok {
				t.Fatalf("no register %s", name)
			}
			v, err := sw.Register(id, index)
			if err != nil {
				t.Fatal(err)
			}
			value = v[len(v)-1]
		})
		return value
	}
	dead := func(want byte) {
		t.Helper()
		l.until(func(process.Stats) bool { return register("dead_uplinks", 0) == want })
	}

	l.until(func(process.Stats) bool { return register("port_down", 2) != 0 })
	epoch := register("port_down", 2)
	dead(0)
	l.write(uplink(p4.Update_INSERT, 1, 0), uplink(p4.Update_INSERT, 2, 1))
	dead(1 << 1)
	l.write(uplink(p4.Update_MODIFY, 2, 5), uplink(p4.Update_INSERT, 3, 1)) // the place goes to a live port
	dead(1 << 5)
	if got := register("port_down", 2); got != epoch {
		t.Errorf("the epoch became %d from %d without an event", got, epoch)
	}

	before := l.d.Stats().PortEvents
	l.write((&running{info: p4src.V1ModelP4Info()}).entry(t, p4.Update_MODIFY, "device", nil, "set_device",
		[]byte{7}, []byte{1}, []byte{0}, []byte{1}, []byte{0}, []byte{1}))
	if after := l.d.Stats().PortEvents; after != before {
		t.Errorf("%d events after a write that is none of theirs", after-before)
	}
}
