package main

import (
	"fmt"

	"github.com/ethereal-fabric/ethereal/p4src"
	"github.com/ethereal-fabric/ethereal/p4switch/portstate"
)

// programsPortEvents are the packets by which Ethereal's P4 program learns of ports.
func programsPortEvents() *portstate.EventPackets {
	return &portstate.EventPackets{Port: p4src.PortEventPort, Ports: p4src.MaxPorts, Append: p4src.AppendPortEvent,
		Register: p4src.PortDown, Tables: p4src.PortTables()}
}

// portEvents returns the packets by which the switch notifies its program of ports: to no program (off), to every one
// (on), or to one that has Ethereal's register of ports (auto).
func portEvents(when string) (*portstate.EventPackets, error) {
	events := programsPortEvents()
	switch when {
	case "auto":
		return events, nil
	case "on":
		events.Register = ""
		return events, nil
	case "off":
		return nil, nil
	}
	return nil, fmt.Errorf("switch: port events %q; it is auto, on or off", when)
}
