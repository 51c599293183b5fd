// Command capi is the host agent as a C library, for a collective library or a
// network plug-in of one: batches of (destination, bytes) go in, pieces with labels
// and queue pairs come out. See hostagent/batch, whose functions it exports, and
// ethereal_agent.h, which documents them.
//
//	go build -buildmode=c-shared -o libethereal.so ./hostagent/capi
//	cc -I hostagent/capi program.c -L. -lethereal
//
// It needs cgo; without, it is an empty program.
package main

func main() {}
