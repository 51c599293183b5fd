// Package tracepb is the part of Perfetto's trace format that package recording writes and reads, generated from
// trace.proto. In the whole format some of the fields are members of a oneof, which is the same on the wire.
//
// Regenerating needs protoc and protoc-gen-go v1.36.12 on the PATH.
package tracepb

//go:generate protoc --go_out=. --go_opt=paths=source_relative trace.proto
