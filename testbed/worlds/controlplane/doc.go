// Package controlplane is a fabric's controller in simulated time: [rollout.Core], which learns of ports a
// scenario's delays after switches notice them, and whose writes and link updates arrive after theirs.
//
// A [Process] adds only time. The core decides what is written and sent, and in which order. Its
// [World] says what switches and agents are. The virtual world's take P4Runtime and gNMI messages, the flow
// world's are tables alone. All inputs of one time are processed together, as a controller takes all that
// waits for it.
//
// Of several planes each has a process, whose core knows the plane by its own numbers.
//
// A process belongs to the goroutine that simulates.
package controlplane
