// Package process runs a P4 switch as a process: packet ports (p4switch/port), the data plane
// (p4switch/interp) and its P4Runtime and gNMI services (p4switch/p4runtime, gnmi), with a traffic
// manager between the pipelines.
//
// # Use
//
// [New] takes opened ports; [Device.Run] forwards until its context ends; [Device.Serve] answers controllers on a
// listener; [Device.Install] loads a program without a controller; [Device.Close] frees everything, after Run and
// Serve have returned.
//
// # A packet's way
//
// One goroutine does all forwarding. It waits for all ports at once and takes a burst of frames from each ready
// port. It runs every packet to the end: ingress, egress, the port's batch. The batch is sent when it is full or
// the burst is over. Forwarding holds a lock that is released between bursts.
//
// # The control side
//
// P4Runtime and gNMI have a lock of their own, which forwarding never takes. Forwarding's messages for them
// (packets for controllers, digests, link changes) wait in a bounded queue, in order, for a goroutine that delivers
// them. Their changes of the data path are made under forwarding's lock, some updates at a time
// (p4runtime.Config.DataPath). So a packet waits for a few updates and not for a request; but packets see a
// DATAPLANE_ATOMIC Write as a whole. Nothing is decoded, encoded or sent under forwarding's lock.
// [Stats].LongestHold is the longest time for which packets waited.
//
// # Queues
//
// A port that takes no more frames, because its link is slow, is blocked. Its packets then wait in the switch, in
// one queue per port and priority, and the egress pipeline runs when a packet leaves the queue. A queue holds
// [Config.QueueDepth] packets; further packets are dropped and counted (tail drop). enq_qdepth and deq_qdepth count
// the packets of that queue, as BMv2's do, and are 0 while the port is not blocked: a burst is not a queue. Higher
// priorities always go first. [Config.QueueRate] limits every queue to a number of packets per second, as BMv2's
// set_queue_rate does.
//
// Below the queue are only a batch of frames (one frame, if the port was blocked recently) and the interface's own
// send buffer.
//
// # Port events
//
// A program that keeps port liveness in the data plane learns of a port's change by a packet that the switch makes
// and injects ahead of all other packets. [Config.PortEvents] has the packet's format and its ingress port, and says
// which programs get such packets.
//
// # Goroutines
//
// All methods of a Device are safe for concurrent use, unless they say otherwise. Run starts one goroutine for
// forwarding, one for timers and one for messages from forwarding to the control side, and waits for all.
package process
