// Package sidecar gives a gNMI server to a switch that has none, such as
// BMv2: it watches the switch's network interfaces by netlink, serves
// openconfig-interfaces over them, carries out Set of config/enabled on them,
// and tells the switch's P4 program about its ports.
//
// # Use
//
// [New] opens what it needs in the network namespace of the calling thread;
// [Sidecar.Run] follows the interfaces until its context ends;
// [Sidecar.Serve] answers gNMI on a listener; [Sidecar.Close] frees
// everything, after both have returned.
//
// # Port events
//
// The Ethereal program keeps the liveness of ports in a register, which
// P4Runtime does not reach on BMv2, and takes its changes from port-event
// packets on port p4src.PortEventPort alone. So the switch gets a veth pair of
// its own as that port, and the sidecar sends into the other end
// ([Config.EventInterface]):
//
//	ip link add s1-ev type veth peer name s1-evp
//	simple_switch_grpc ... -i 508@s1-evp
//	ethereal gnmi ... --event-interface s1-ev
//
// A program that is pushed, and a switch that is restarted, starts with all
// registers zero, and says so to nobody. So the state of all ports is told
// again every [Config.Refresh], with the epoch it had: to a program that knows
// it that changes nothing.
//
// # Epochs
//
// A port's epoch counts its changes. It starts at a value taken from the clock,
// below 50,000, so that hosts do not take the events of a sidecar that was
// restarted for old ones.
//
// # Goroutines
//
// All methods are safe for concurrent use, unless they say otherwise. Run
// starts one goroutine for interfaces and one for what time brings, and waits
// for both.
package sidecar
