// Package owners lets an agent label queue pairs that only their owners, other processes, can label: those of an
// RNIC, through the verbs.
//
// The agent serves a UNIX socket ([Server], a labeller.Discoverer). A process that owns queue pairs connects and
// shows them. The agent gives each a path, and another one when the path dies. The owner labels them and confirms.
// libethereal-rnic (hostagent/verbs/rnic) does that in programs that do not know of the agent. Other programs speak
// the protocol themselves and set labels by libibverbs or, in Go, by a verbs.Labeller.
//
// # Restarts
//
// An agent that ends leaves queue pairs unchanged. Their owners connect to the next agent and show them with their
// labels, which the agent takes over. A queue pair whose owner lost its stream gets the decisions of the meantime
// when the owner connects again.
//
// # Protocol
//
// Both ends write JSON objects, one per line, each with one of these members:
//
//	owner  {"show": [{"dst": "10.3.1.3", "qp": 291, "label": 5}]}  label: only if known
//	owner  {"forget": [{"dst": "10.3.1.3", "qp": 291}]}
//	owner  {"timeout": [{"dst": "10.3.1.3", "qp": 291}]}
//	agent  {"seq": 7, "set": [{"dst": "10.3.1.3", "qp": 291, "label": 6}]}
//	owner  {"seq": 7, "error": ""}                                 set is in force, or why not
//
// The agent sends one request at a time, and disconnects an owner that does not answer within 10 s. After a failed
// request, the agent repeats the request for each of its queue pairs alone, until it succeeds.
//
// A line has at most 1 MiB. An end that breaks these rules is disconnected.
package owners
