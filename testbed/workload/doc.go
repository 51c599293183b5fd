// Package workload runs programs of collectives: what each rank computes, sends
// and reduces, and in which order. Several jobs at once on ranks of their own,
// an iteration of a GPT-like model, and MLCommons Chakra execution traces are
// all programs.
//
// A [Program] has a list of operations per rank. An operation begins when those
// that it waits for are done: a computation takes its time; a collective begins
// on a rank when that rank reaches it, and is done there when the rank has
// received all its messages and knows its own to be delivered; a send and a
// receive are one message. Which operations of different ranks belong together
// follows from their order: the n-th collective of a group on each of its
// ranks, the n-th message of a tag between two ranks.
//
// [Runner] is the state machine of one run, pure as [collective.Job] is, which
// carries out the collectives in it. It is not safe for concurrent use.
//
// # Chakra
//
// [ReadChakra] reads one file a rank, PREFIX.RANK.et, as astra-sim and the
// Chakra tools write them: a GlobalMetadata message, then Node messages, each
// with its length before it. chakra.proto says which fields are read. A group
// of ranks is named by the attribute pg_name and defined in PREFIX.groups.json,
// {"name": [ranks]}; without the attribute it is all ranks. Traces say nothing
// of algorithms: its reader chooses.
package workload
