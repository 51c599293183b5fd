// Package collective turns collective operations into the point-to-point sends
// of every rank, in the order the data allows.
//
// A [Job] is a pure state machine of one collective over n ranks: [Job.Start]
// emits what the ranks post at once, [Job.Received] takes the word that a
// message has arrived whole and emits what its receiver posts because of it,
// and [Job.Sent] takes the word that a message's sender has its last
// acknowledgement. Nothing is posted before the data that it carries is there:
// the package's tests run every algorithm on real vectors, in random orders of
// arrival, and check the sums.
//
// # Rules
//
// S is [Spec].Bytes, N the number of ranks. Sizes are rounded down to whole
// bytes, as the reference evaluation does; there is no chunking, and no delay
// for posting or for reducing.
//
//   - direct: rank i sends S/N bytes to i+1, i+2, ... (mod N) at once. An
//     all-reduce does that twice; a rank begins the second time when it has
//     received everything of the first. There is no barrier between ranks.
//   - halving-doubling (recursive vector halving and doubling, Rabenseifner's
//     algorithm): in step k = 1..log2 N a rank exchanges S/2^k bytes with rank
//     i XOR 2^(k-1), then the same in the opposite order. A step begins when the
//     one before is received. N is a power of two.
//   - whole-vector-doubling (recursive doubling of an all-reduce): in step
//     k = 1..log2 N a rank exchanges all S bytes with rank i XOR 2^(k-1). A step
//     begins when the one before is received. If N is no power of two, as many
//     ranks as are too many hand their vectors to a neighbour first and get the
//     sum back last.
//   - ring: N-1 steps, twice for an all-reduce; S/N bytes to rank i+1 in each.
//   - double-binary-tree: two trees, each with half the data. Every rank but
//     one is a leaf in one of them and the trees' leaves are disjoint. Data is
//     summed towards the roots, then sent back.
//   - permutation: every rank sends S bytes to one other and receives from one.
//   - incast: senders each send S bytes to one target.
//
// # Use
//
// Calls about one rank must not be concurrent; those about different ranks may be.
// The emit functions are called before
// Start or Received return and must not call into the Job. Memory grows with
// the number of ranks only, whatever the number of messages.
package collective
