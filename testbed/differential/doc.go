// Package differential runs the same program, entries and packets through p4switch/interp and through BMv2
// (simple_switch_grpc), and compares every outgoing packet and every counter.
//
// BMv2 is not part of this repository: the tests look for it under the environment variable BMV2, or as
// simple_switch_grpc on PATH, and skip without it. It runs in its own network namespace without interfaces: packets
// come from named pipes in pcap format and go to pcap files, P4Runtime uses a Unix socket.
package differential
