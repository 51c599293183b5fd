// Package collective turns collective operations into the point-to-point sends of every rank, in the order that the
// data allows.
//
// A [Job] is a pure state machine of one collective over n ranks. [Job.Start] emits the messages that the ranks
// post at once. [Job.Received] is called when a message has arrived whole, and emits the messages that its receiver
// then posts. [Job.Sent] is called when a message's sender has the last acknowledgement. No message is posted
// before its data is there: the package's tests run every algorithm on real vectors, in random orders of arrival,
// and check the sums.
//
// # Rules
//
// S is [Spec].Bytes, N the number of ranks. Sizes are rounded down to whole bytes, as the reference evaluation
// does; there is no chunking, and no delay for posting or for reducing.
//
//   - direct: rank i sends S/N bytes to i+1, i+2, ... (mod N) at once. An
//     all-reduce does that twice; a rank begins the second time when it has
//     received everything of the first. There is no barrier between ranks.
//   - halving-doubling (recursive vector halving and doubling, Rabenseifner's
//     algorithm): in step k = 1..log2 N a rank exchanges S/2^k bytes with rank
//     i XOR 2^(k-1), then the same in the opposite order. A step begins when the
//     previous step's data is received. N is a power of two.
//   - whole-vector-doubling (recursive doubling of an all-reduce): in step
//     k = 1..log2 N a rank exchanges all S bytes with rank i XOR 2^(k-1). A step
//     begins when the previous step's data is received. If N is no power of two,
//     the surplus ranks first send their vectors to a neighbour, and get the
//     sum back last.
//   - ring: N-1 steps, twice for an all-reduce; S/N bytes to rank i+1 in each.
//     With channels there are several rings, each with a part of the data; a
//     channel's steps wait for its own only.
//   - double-binary-tree: two trees, each with half the data. Every rank but
//     one is a leaf in one of them and the trees' leaves are disjoint. Data is
//     summed towards the roots, then sent back.
//   - permutation: every rank sends S bytes to one other and receives from one.
//   - incast: senders each send S bytes to one target.
//
// # Use
//
// Calls about one rank must not be concurrent; calls about different ranks may be. The emit functions are called
// before Start or Received return and must not call into the Job. Memory grows with the number of ranks only, not
// with the number of messages.
package collective
