// Package ebpf runs a switch's program in the kernel, as eBPF on the TC hooks.
//
// It translates the compiled program (the lower files), makes the maps that the instructions name, loads them, and
// keeps the maps equal to the interpreter's switch. A packet's result is one of the Fate constants. From [FateUp]
// on, the packet met a construct that the kernel program does not have: nothing has changed, and the interpreter
// processes the packet. [Switch.Constructs] names these constructs and [Switch.Fates] counts their packets.
//
// # State
//
// Tables are written to the interpreter first and then copied by [Switch.Sync], which writes the entries that have
// changed. Meanwhile a packet sees an entry's old or new value, and may see half of a default's arguments. The masks of
// a table change at once. An entry with ranges is as many entries as its ranges have prefixes. Registers
// are read in the kernel, from a copy that follows the interpreter's writes; the interpreter processes packets that
// write one. So a packet may read the old value while a writing packet is still on its way to the interpreter. The
// kernel counts the packets that it forwards or drops, the interpreter counts its own; a reading of the
// interpreter's switch returns the sum (interp.Switch.CountBeside).
//
// # The way up
//
// [Attach] puts programs on an interface's ingress hook. Packet sockets see a packet before that hook, so a packet
// for the interpreter is marked ([Mark]) and enters once more by the same interface. A socket that takes marked
// packets only (port.Interface.OnlyMarked) sees just those. The program drops them there.
//
// # Lost carriers
//
// With [Devices], a packet that is about to leave by a port without a carrier goes to the interpreter, and
// [Switch.Lost] names the port.
//
// # Needs
//
// CAP_BPF and CAP_NET_ADMIN, and a kernel whose verifier accepts the program; a refusal is an error with the
// verifier's last lines. Nothing is pinned: the kernel drops program and maps with the last process that holds
// them. [HookClsact] then leaves a filter that lets packets pass.
package ebpf
