// Package controlplane is a fabric's controller in simulated time: [rollout.Core], with a scenario's delays. It
// learns of ports a delay after the switches do, and its writes and link updates arrive a delay after it sends
// them.
//
// A [Process] adds only time. The core decides what is written and sent, and in which order. Its [World] defines
// switches and agents: the virtual world's take P4Runtime and gNMI messages. All inputs of one time are processed
// together, as a controller processes all waiting inputs.
//
// With several planes there is one process per plane; its core numbers only the plane's nodes and links.
//
// A process belongs to the goroutine that simulates.
package controlplane
