// Package daemon is what a host agent needs as a process on a network, around the
// decisions of package hostagent: it listens to controllers, keeps what a restart
// must not lose, and shows its state.
//
// # Controllers
//
// A [Watcher] keeps a stream open to every controller it is given. Epochs of
// different controllers do not compare, so the agent follows one at a time: the
// first that sends anything, until that one's stream breaks or falls silent.
// Then it follows another whose stream lives, and begins with a snapshot of what
// that one has reported so far. When none is left the last state stays: links do not
// fail because controllers do.
//
// # State
//
// A [StateFile] remembers the queue pairs that live elsewhere than in the agent's
// process, in an RNIC or another program, and the links known to be down, so that
// a restarted agent finds every queue pair on the path that it has and relabels
// none.
//
// # Status
//
// [Handler] serves a status as JSON and metrics in Prometheus' text format,
// read-only.
package daemon
