// Package tagger labels the RoCEv2 packets of any program on this machine, in
// the kernel: an eBPF program at an interface's egress hook finds them, looks
// their queue pair up in a map, writes the label into its carrier and corrects
// the ICRC and the UDP checksum. The program that sends knows nothing of it.
//
//	t, err := tagger.Attach(tagger.Config{Interfaces: []string{"eth1"}})
//	if errors.Is(err, labeller.ErrNotPermitted) { ... } // say so; label in line
//	defer t.Close()
//	t.Set(labeller.Assignment{QP: qp, Label: 5}) // from the next packet on
//
// A [Tagger] is a [labeller.Discoverer]. It sees what the kernel sends: soft
// RoCE and programs with sockets. What an RNIC sends past the kernel it cannot
// see; see hostagent/verbs for that.
//
// # How
//
// The hook is TCX (Linux 6.6), or a classifier on the clsact qdisc before. The
// program passes every packet on to whatever else is attached. The ICRC is
// linear, so its correction needs the changed bits and their distance from the
// end, not the payload: one table of 65,536 powers and sixteen steps of a
// polynomial product serve every length. A checksum that the interface will
// complete is left to it; VLAN tags, in the frame or beside it, and IPv4
// options are read past. Fragments, contradictory headers, and buffers still
// to be cut into segments are left alone and counted ([labeller.Reason]).
//
// # Lifetime
//
// Without [Config.PinDir] the labels live as long as the Tagger. Under TCX the
// kernel detaches the program even if the process is killed; a classifier
// stays then, until the next Attach to the interface replaces it. With PinDir, a
// directory on a bpf file system, program and labels go on when the process
// ends, and the next Attach with the same directory takes them over without a
// packet unlabelled. [Tagger.Remove] ends that.
//
// # Traps
//
// A packet whose buffer is not in one piece is copied into one when its ICRC is
// written, which costs more than everything else; plain sockets do not make
// such. The transmit queue was chosen by the old source port's hash and stays,
// so the packets of a queue pair keep their order inside the host. Per label and
// processor the counters take 16 bytes: 256 KiB a processor.
//
// tagger_bpfel.o is bpf/tagger.c compiled; `go generate` makes it again with
// clang, llvm-strip and libbpf's headers. It is for little-endian machines.
package tagger
