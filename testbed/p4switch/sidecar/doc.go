// Package sidecar gives a gNMI server to a switch that has none, such as
// BMv2: it watches the switch's network interfaces by netlink, serves
// openconfig-interfaces over them, carries out Set of config/enabled on them,
// and notifies the switch's P4 program about its ports.
//
// # Use
//
// [New] opens what it needs in the network namespace of the calling thread;
// [Sidecar.Run] follows the interfaces until its context ends;
// [Sidecar.Serve] answers gNMI on a listener; [Sidecar.Close] frees
// everything, after both have returned.
//
// # Admin state
//
// config/enabled is the interface's own state, administratively up or not: who
// else takes it up or down changes it too, and a sidecar that is started again
// finds it as it is.
//
// BMv2 receives for all ports in one thread. libpcap, from 1.10 on, keeps that
// thread inside pcap_next_ex as long as the interface it asks about is
// administratively down (libpcap issue 859), so closing one port silences all. A
// switch whose interface is a macvlan does not meet this: the interface beneath is
// taken up and down in its place, and the macvlan loses its carrier but stays open.
//
//	ip link add link s1-eth1 name s1-p1 type macvlan mode passthru
//	simple_switch_grpc ... -i 1@s1-p1
//	ethereal gnmi ... -i 1@s1-p1        # Set closes s1-eth1
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
// registers zero, without notice. So the state of all ports is sent
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
