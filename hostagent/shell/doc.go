// Package shell drives a [hostagent.Core] by a clock, for agents that several
// goroutines call into: it has the core's lock, its time, and its words of
// failures. What the core decides goes to a function of the agent's.
//
// The agents are hostagent/batch, for programs that hand over what they send, and
// hostagent/adopt, for those that know nothing of it. Both embed a [Shell].
//
// A Shell is safe for concurrent use. It starts no goroutine: [Shell.Run] is one.
package shell
