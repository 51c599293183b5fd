// Package differential runs the same program, entries and packets through
// testbed/p4switch/interp and through BMv2 (simple_switch_grpc), and compares every packet
// that comes out, and every counter.
//
// BMv2 is not part of this repository: the tests look for it under the
// environment variable BMV2, or as simple_switch_grpc on PATH, and skip without
// it. It runs in a network namespace of its own, without interfaces: packets
// come from named pipes in pcap format and go to pcap files, P4Runtime goes over
// a Unix socket.
package differential
