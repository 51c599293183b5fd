// Package ebpf runs a switch's program in the kernel, as eBPF on the TC hooks.
//
// It translates the compiled program (the lower files), makes the maps that the
// instructions name, loads them and keeps the maps as the interpreter's switch
// is. What became of a packet is one of the Fate constants: from [FateUp] on, its way
// meets a construct that the kernel has not, nothing has changed, and the
// packet is the interpreter's. [Switch.Constructs] names these and [Switch.Fates]
// counts their packets.
//
// # State
//
// Tables are written to the interpreter first and copied by [Switch.Sync]; a
// packet meanwhile finds an entry as it was or as it is, and defaults and the
// masks of ternary tables, which are copied as one value, perhaps half of
// each; where a new entry changes the order of a ternary table's masks, the entry
// of another mask. Registers are read in the kernel, from a copy that follows the
// interpreter's writes; a packet that writes one is the interpreter's. So a packet
// may read what was before the write of one that is still on its way up.
// Counters count in the kernel what the kernel forwards or drops and in the
// interpreter what it does; reading the interpreter's switch gives the sum
// of both (interp.Switch.CountBeside).
//
// # The way up
//
// [Attach] puts programs on an interface's ingress hook. Packet sockets see a
// packet before that hook does, so a packet that goes up is marked ([Mark]) and
// comes in once more by the same interface: a socket that takes marked packets only
// (port.Interface.OnlyMarked) sees just those. The program drops them there.
//
// # Needs
//
// CAP_BPF and CAP_NET_ADMIN, and a kernel whose verifier takes the program;
// what it refuses is an error with the verifier's last words. Nothing is pinned:
// the kernel drops program and maps with the last process that holds them. What a
// [HookClsact] leaves then is a filter that lets packets pass.
package ebpf
