// Package controlplane is a fabric's controller in simulated time: [rollout.Core], which hears of ports a
// scenario's delays after switches notice them, and whose writes and link updates arrive after theirs.
//
// A [Process] decides nothing but when: what is written and told, and in which order, is the core's. Its
// [World] says what switches and agents are. The virtual world's take P4Runtime and gNMI messages, the flow
// world's are tables alone. Whatever is told at one time is acted on at once, as a controller takes all that
// waits for it.
//
// Of several planes each has a process, whose core knows the plane by its own numbers.
//
// A process belongs to the goroutine that simulates.
package controlplane
