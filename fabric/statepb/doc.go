// Package statepb has the messages between the controller and the host agents, generated from state.proto. Several
// goroutines may read a message at the same time once no goroutine writes to it. It imports no gRPC, so that cores can
// use it; the calls that carry the messages are in package staterpc.
//
// Regenerating needs protoc and protoc-gen-go v1.36.12 on the PATH.
package statepb

//go:generate protoc -I../.. --go_out=../.. --go_opt=paths=source_relative fabric/statepb/state.proto
