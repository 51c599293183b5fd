// Package staterpc has the gRPC calls between the controller and the host agents, and between controllers, generated
// from service.proto. Their messages are in package statepb.
//
// Regenerating needs protoc, protoc-gen-go v1.36.12 and protoc-gen-go-grpc v1.6.2 on the PATH.
package staterpc

//go:generate protoc -I../.. --go_out=../.. --go_opt=paths=source_relative --go-grpc_out=../.. --go-grpc_opt=paths=source_relative fabric/staterpc/service.proto
