// Package owners lets an agent label queue pairs of other processes that only
// their owners can label: those of an RNIC, through the verbs.
//
// The agent serves a UNIX socket ([Server], a labeller.Discoverer). A process that
// owns queue pairs joins it and shows them; the agent gives each a path, and later
// another when the path dies; the owner labels them, and says that it is done.
// libethereal-rnic (hostagent/verbs/rnic) does that in programs that know nothing
// of it; a program of another kind speaks the protocol, and sets labels by
// libibverbs or, in Go, a verbs.Labeller.
//
// # Restarts
//
// An agent that ends leaves queue pairs as they are. Their owners join the next one
// and show them with the labels that they carry, and it takes them over so. A queue
// pair whose owner lost its stream gets what was decided meanwhile when the owner
// is back.
//
// # Protocol
//
// Both ends write JSON objects, one a line, each with one of these members:
//
//	owner  {"show": [{"dst": "10.3.1.3", "qp": 291, "label": 5}]}  label: only if known
//	owner  {"forget": [{"dst": "10.3.1.3", "qp": 291}]}
//	owner  {"timeout": [{"dst": "10.3.1.3", "qp": 291}]}
//	agent  {"seq": 7, "set": [{"dst": "10.3.1.3", "qp": 291, "label": 6}]}
//	owner  {"seq": 7, "error": ""}                                 set is in force, or why not
//
// One request is under way at a time, and an owner that does not answer within 10 s
// is cut off. Of queue pairs in one that failed, each is asked for alone, again and
// again.
//
// A line has at most 1 MiB. An end that does not keep to this is cut off.
package owners
