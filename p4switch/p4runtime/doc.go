// Package p4runtime is the P4Runtime 1.5 side of a switch, in front of p4switch/interp's data plane.
//
// # Core and shell
//
// [Core] takes the protocol's own messages in plain calls: it has no goroutine, socket or clock, so a simulator can
// call it at simulated times. [Server] registers it on a gRPC server, keeps time with Run, and takes one lock
// around every call.
//
//	ports, err := portstate.New([]portstate.Config{{Name: "Ethernet1", Number: 1}})
//	core, err := p4runtime.New(p4runtime.Config{DeviceID: 1, Ports: ports, Now: now})
//	srv := p4runtime.NewServer(&mu, core)
//	srv.Register(grpcServer)
//	go srv.Run(ctx) // in an errgroup
//
// # The data plane
//
// Its owner asks [Core.Switch] for the switch in the data path and processes bursts of packets under the same lock.
// A pipeline push makes a new switch and calls [Config.OnSwitch]. There the owner must finish packets of the old
// switch, since they belong to it. Packets that leave at the CPU port go to [Core.PacketIn]; controllers' packets
// come through [Config.OnPacketOut].
//
// # Ports
//
// When p4switch/portstate reports a changed port, selectors and multicast groups fail over in the data
// plane. Then [Config.OnPortEvent] lets the owner notify the program.
//
// # Time
//
// Times are nanoseconds since the Unix epoch, from [Config.Now]; the data plane's own clock (interp.Input.Now)
// started at [Config.Epoch]. Advance does what is due, NextDeadline says when to call it again.
//
// # Messages
//
// Write and SetForwardingPipelineConfig keep parts of their requests, and answers share parts with the core: do not
// change a message after it was handed over. One message may go to many switches.
//
// # Where the specification leaves a choice
//
//   - Values that do not fit (match fields, parameters, packet metadata, data)
//     are INVALID_ARGUMENT, as in PI; an index beyond an array is OUT_OF_RANGE.
//   - DATAPLANE_ATOMIC is atomic towards packets. ROLLBACK_ON_ERROR is atomic towards
//     controllers only: packets may pass in the middle of a batch.
//     After an error the other updates of either are ABORTED.
//   - An answer that would be too large describes a part of the batch: one p4.Error
//     for each of the first rpc.Budget.ListedErrors updates, with texts for the first failures.
//   - Reading one missing member, group, multicast group or clone session
//     is NOT_FOUND; reading one missing table entry returns nothing.
//   - VERIFY_AND_SAVE starts an empty pipeline beside the one in the data path;
//     writes and reads refer to it until COMMIT puts it there.
//   - A multicast replica whose port and backups are all down is not made.
//   - A selector whose members are all down behaves as the data plane's empty group.
//   - Role configurations are refused unless [Config.Role] knows them. An object
//     annotated @p4runtime_role("x") belongs to role x and to the default role.
//   - p4_device_config is the BMv2 JSON, or p4.tmp.P4DeviceConfig around it.
//
// Not implemented, and answered UNIMPLEMENTED: extern entries, counters per meter colour, direct counters and
// meters of default entries, the excess burst of single-rate three-colour meters.
package p4runtime
