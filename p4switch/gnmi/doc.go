// Package gnmi is the gNMI side of a switch: openconfig-interfaces over the state of its ports
// (p4switch/portstate).
//
// [Core] takes the protocol's own messages in plain calls: it has no goroutine, socket or clock, so a simulator can
// call it at simulated times. [Server] registers it on a gRPC server, keeps time with Run, and takes one lock
// around every call.
//
//	ports, err := portstate.New([]portstate.Config{{Name: "Ethernet1", Number: 1}})
//	core, err := gnmi.New(gnmi.Config{Ports: ports, Now: now})
//	srv := gnmi.NewServer(&mu, core)
//	srv.Register(grpcServer)
//	go srv.Run(ctx) // in an errgroup
//
// Times are nanoseconds since the Unix epoch, from [Config].Now. Answers share parts with the core: do not change a
// message after it was handed over.
package gnmi
