// Package program compiles p4c's BMv2 JSON, the compiled form of a v1model P4 program, to flat code over one array
// of words per packet.
//
// [Load] turns the JSON into an immutable [Program]. p4switch/interp executes it, p4switch/ebpf
// translates it for the kernel; both read its exported fields, which are never changed. [TableInfo], [ActionInfo]
// and the other descriptions describe it to other packages: names are the fully-qualified P4 names of the JSON, the
// same as in P4Info.
//
// # The compiled form
//
// Headers, metadata, constants, arguments and temporaries are slots of 64 bits: see layout.go. Actions, expressions
// and pipelines are instructions ([Inst]) over slots, rarer primitives a [Call]; see code.go. The parser is states
// with operations and packed select keys ([Parser]), tables are keys packed into words ([Table]), deparsing and
// calculations are steps ([EmitStep]). Headers that the program only carries stay in the packet's bytes: see
// usage.go.
//
// A construct that is not executed is an [ErrUnsupported] that names it.
package program
