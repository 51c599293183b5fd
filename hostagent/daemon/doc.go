// Package daemon is the part of a host agent that a process on a network needs besides the decisions of package
// hostagent: it listens to controllers, keeps state over restarts, and shows its state.
//
// # Controllers
//
// A [Watcher] keeps a stream open to every controller of its configuration. Epochs of different controllers are not
// comparable, so the agent follows one at a time: the first that sends anything, until its stream breaks or falls
// silent. Then it follows another controller whose stream is open, and begins with a snapshot of that controller's
// reports. Without any controller the last state stays, because links do not fail when controllers do.
//
// # State
//
// A [StateFile] stores the queue pairs that outlive the agent's process, in an RNIC or another program, and the
// links known to be down. So a restarted agent finds the path of every queue pair and relabels none.
//
// # Status
//
// [Handler] serves the status as JSON and metrics in Prometheus' text format, read-only.
package daemon
