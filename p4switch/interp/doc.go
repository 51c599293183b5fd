// Package interp executes a v1model P4 program, as p4switch/program compiles it, with the semantics of
// BMv2's simple_switch.
//
// # Use
//
// [program.Load] turns p4c's BMv2 JSON into an immutable [program.Program], which any number of switches share.
// [NewSwitch] makes one switch's state: table entries, counters, meters, registers, action profiles, clone sessions
// and multicast groups. [Switch.Process] sends one packet through both pipelines. [Switch.Ingress] and
// [Switch.Egress] are its halves, so that the caller's traffic manager may sit between them, as queues do in a real
// switch.
//
// # Values
//
// Everything that the control plane reads and writes is a big-endian byte string, as in P4Runtime. Any length is
// accepted whose value fits the bit width; returned strings have exactly ceil(width/8) bytes. Names are the
// fully-qualified P4 names of the JSON, the same as in P4Info. Times are nanoseconds since the switch started; P4
// programs see them as 48-bit microseconds.
//
// # Virtual payload
//
// A simulator need not carry payload bytes: [Input.Length] may exceed len([Input.Data]). The missing bytes count in
// packet_length, counters, meters and truncation, and in [Output.Length], but do not exist in memory. A checksum or
// hash over the payload takes them as zero. A parser that reaches them finds the packet too short.
//
// # Lifetime
//
// Packets are pooled by the switch that made them: return each through [Switch.Egress], [Switch.Resume] or
// [Switch.Free] exactly once. Output.Data is valid until the next call on the switch. Input.Data is copied; the
// caller may reuse it at once.
//
// # Where it differs from simple_switch
//
// Operations that are undefined in BMv2, or make it abort or loop for ever, end in a counted drop ([Switch.Drops]):
// a failed assert, an index outside a stack (reads give 0, writes nothing), division by zero (0), a parser or
// an action without end, a selector group without live members (acts as a miss). Fields of a header that was never
// valid read as 0, not as an earlier packet's. Toeplitz hashes have BMv2's initial key of zeros; crc*_custom its
// initial parameters. There are no user-defined externs.
//
// # Speed
//
// The program is flat code over one array of words per packet. run.go executes it, lookup.go finds entries,
// trace.go keeps traces for the execution paths of most packets. After warm-up a packet allocates nothing, except
// for digests and log messages. Measure with
//
//	go test -run - -bench 'OwnProgram|Stages|Scale' ./p4switch/interp
//
// # Goroutines
//
// A Program is safe for concurrent use. A Switch is not: its owner serialises packets and control operations. The
// package starts no goroutine and reads no clock; the same seed and the same calls give the same packets.
package interp
