// Package shell drives a [hostagent.Core] by a clock, for agents into which several goroutines call. It has the
// core's lock and clock, and takes the notifications of failures. It passes the core's decisions to a function of
// the agent.
//
// The agents are hostagent/batch, for programs that hand over their messages, and hostagent/adopt, for programs
// that do not know of the agent. Both embed a [Shell].
//
// A Shell is safe for concurrent use. It starts no goroutine; [Shell.Run] is one.
package shell
