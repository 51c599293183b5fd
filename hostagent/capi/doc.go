// Command capi is the host agent as a C library, for a collective library or its network plug-in. It takes batches
// of (destination, bytes) and returns pieces with labels and queue pairs. It exports the functions of
// hostagent/batch; ethereal_agent.h documents them.
//
//	go build -buildmode=c-shared -o libethereal.so ./hostagent/capi
//	cc -I hostagent/capi program.c -L. -lethereal
//
// It needs cgo; without cgo it is an empty program.
package main

func main() {}
