// Package tagger labels the RoCEv2 packets of any program on this machine, in the kernel. An eBPF program at an
// interface's egress hook finds the packets, looks their queue pair up in a map, writes the label into its carrier
// and corrects the ICRC and the UDP checksum. The sending program does not notice.
//
//	t, err := tagger.Attach(tagger.Config{Interfaces: []string{"eth1"}})
//	if errors.Is(err, labeller.ErrNotPermitted) { ... } // say so; label in line
//	defer t.Close()
//	t.Set(labeller.Assignment{QP: qp, Label: 5}) // from the next packet on
//
// A [Tagger] is a [labeller.Discoverer]. It sees the packets that the kernel sends: those of soft RoCE and of
// programs with sockets. It does not see the packets of an RNIC, which bypass the kernel; see hostagent/verbs.
//
// # How
//
// The hook is TCX (Linux 6.6), or, on older kernels, a classifier on the clsact qdisc. The program passes every
// packet on to other programs at the hook. The ICRC is linear, so its correction needs the changed bits and their
// distance from the end, not the payload: one table of 65,536 powers and sixteen steps of a polynomial product
// serve every length. The program leaves a checksum that the interface will complete to the interface. It skips
// VLAN tags, in the frame or beside it, and IPv4 options. Fragments, contradictory headers, and buffers still to be
// cut into segments are not changed, and are counted ([labeller.Reason]).
//
// # Lifetime
//
// Without [Config.PinDir], labels live as long as the Tagger. Under TCX the kernel detaches the program even if the
// process is killed; a classifier stays until the next Attach to the interface replaces it. With PinDir, a
// directory on a bpf file system, program and labels stay when the process ends. The next Attach with the same
// directory takes them over, and no packet is without label meanwhile. [Tagger.Remove] removes them.
//
// # Traps
//
// A packet whose buffer is not contiguous is copied into one piece when its ICRC is written, which costs more than
// everything else; plain sockets do not make such buffers. The transmit queue was chosen by the hash of the old
// source port and does not change, so the packets of a queue pair keep their order inside the host. The counters
// take 16 bytes per label and processor: 256 KiB per processor.
//
// tagger_bpfel.o is bpf/tagger.c compiled; `go generate` makes it again with clang, llvm-strip and libbpf's
// headers. It is for little-endian machines.
package tagger
