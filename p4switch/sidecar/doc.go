// Package sidecar adds a gNMI server to a switch without one, such as BMv2. It watches the switch's network
// interfaces by netlink, serves openconfig-interfaces over them, carries out Set of config/enabled on them, and
// notifies the switch's P4 program of its ports.
//
// # Use
//
// [New] opens what it needs in the network namespace of the calling thread; [Sidecar.Run] follows the interfaces
// until its context ends; [Sidecar.Serve] answers gNMI on a listener; [Sidecar.Close] frees everything, after both
// have returned.
//
// # Admin state
//
// config/enabled is the interface's own administrative state: other programs that take the interface up or down
// change it too, and a restarted sidecar finds it unchanged.
//
// BMv2 receives for all ports in one thread. libpcap, from 1.10 on, keeps that thread inside pcap_next_ex while the
// interface that it asks about is administratively down (libpcap issue 859), so closing one port silences all. A
// switch whose interface is a macvlan does not have this problem: the interface beneath is taken up and down in its
// place, and the macvlan loses its carrier but stays open.
//
//	ip link add link s1-eth1 name s1-p1 type macvlan mode passthru
//	simple_switch_grpc ... -i 1@s1-p1
//	ethereal gnmi ... -i 1@s1-p1        # Set closes s1-eth1
//
// # Port events
//
// A program that keeps the liveness of ports in a register, which P4Runtime does not reach on BMv2, takes changes from
// port-event packets ([Config.PortEvents]), here on port 508 alone. So the switch gets an extra veth pair as that port,
// and the sidecar sends into the other end ([Config.EventInterface]):
//
//	ip link add s1-ev type veth peer name s1-evp
//	simple_switch_grpc ... -i 508@s1-evp
//	ethereal gnmi ... --event-interface s1-ev
//
// A pushed program or a restarted switch starts with all registers zero, without notice. So the state of all ports
// is sent again every [Config.Refresh], with the same epoch; a program that knows the state already does not
// change.
//
// # Epochs
//
// A port's epoch counts its changes. It starts at a value taken from the clock, below 50,000, so that hosts do not
// take the events of a restarted sidecar for old ones.
//
// # Goroutines
//
// All methods are safe for concurrent use, unless they say otherwise. Run starts one goroutine for interfaces and
// one for timers, and waits for both.
package sidecar
