// Package statepb is the protocol between the controller and the host agents, generated from state.proto. Several
// goroutines may read a message at the same time once no goroutine writes to it.
//
// Regenerating needs protoc, protoc-gen-go v1.36.12 and protoc-gen-go-grpc v1.6.2 on the PATH.
package statepb

//go:generate protoc --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative state.proto
