// Package workload runs programs of collectives: what each rank computes, sends and reduces, and in which order.
// Programs are for example several jobs at once on separate ranks, an iteration of a GPT-like model, or an
// MLCommons Chakra execution trace.
//
// A [Program] has a list of operations per rank. An operation begins when the operations that it waits for are
// done. A computation takes its time. A collective begins on a rank when that rank reaches it. It is done there
// when the rank has received all its messages, and its own messages are acknowledged. A send and a receive are one
// message. The order of operations determines which operations of different ranks belong together: the n-th
// collective of a group on each of its ranks, the n-th message of a tag between two ranks.
//
// [Runner] is the state machine of one run, pure as [collective.Job] is; it carries out the program's collectives.
// It is not safe for concurrent use.
//
// # Chakra
//
// [Chakra.Program] reads one file per rank, PREFIX.RANK.et, as astra-sim and the Chakra tools write them: a
// GlobalMetadata message, then Node messages, each after its length. chakra.proto lists the fields that are read.
// The attribute pg_name names a group of ranks, which PREFIX.groups.json defines: {"name": [ranks]}; without the
// attribute the group is all ranks. Traces do not name algorithms: the caller chooses.
package workload
