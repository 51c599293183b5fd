// Package verbs labels the queue pairs of an RNIC. What an RNIC sends never
// passes the kernel, so its labels come from the verbs: the flow label of the
// path, given when a queue pair goes to ready-to-receive (RTR), of which the
// device makes the UDP source port; and afterwards, ready to send (RTS), the
// source port itself, where the device can change it
// (mlx5dv_modify_qp_udp_sport: ConnectX-6 Dx and later, RC and UC).
//
//	l := verbs.New(provider, verbs.Config{})
//	l.Connect(handle, qp, label, path)  // INIT to RTR, with the label
//	l.Start(handle, timers)             // RTR to RTS
//	l.Set(labeller.Assignment{QP: qp, Label: other}) // a flip, in RTS
//
// or, where a library makes the transitions itself: [FlowLabel] goes into its
// ah_attr.grh.flow_label, and [Labeller.Bind] shows the queue pair once it is
// in RTS.
//
// A [Labeller] is a labeller.Labeller. It belongs into the process that owns
// the queue pairs: a handle is of no use to another.
//
// # Builds
//
// The decisions are here, in Go, and need a [Provider]. The real one calls
// libibverbs and libmlx5 through cgo and is built with
//
//	go build -tags verbs
//
// which takes Debian's libibverbs-dev. Without the tag [System] returns an error
// that wraps labeller.ErrUnsupported.
//
// # Not tested on hardware
//
// No RNIC was at hand. The sequence of calls and their arguments are tested
// against a fake provider, and, under the tag, down to the C structures that
// libibverbs and libmlx5 would be handed.
//
// # Traps
//
// Flow label 0 makes drivers derive the source port from the queue pairs'
// numbers, so label 0 needs another: [FlowLabel] never returns 0. In IPv6 the
// flow label carrier cannot be changed after RTR by any call; such a flip
// fails with labeller.ErrUnsupported, and the agent has to open another queue
// pair. The acknowledgements a host sends carry the label of its own end: both
// ends label theirs. Nothing counts packets per label: read the device's own
// counters.
//
// A Labeller is safe for concurrent use. Its provider is called with a lock
// held, one call at a time, as ibv_modify_qp needs it for one queue pair.
package verbs
