// Package batch is the host agent as a library: for a collective library, or a
// network plug-in of one, that has connected queue pairs and messages to send.
// Batches of (destination, bytes) go in; pieces with labels come out, each on
// one of the library's queue pairs, which has been labelled.
//
//	a, err := batch.New(batch.Config{Agent: hostagent.Config{Fabric: f, Host: rank}, Labeller: l})
//	go a.Run(ctx)
//	a.Add(qps...)            // connected queue pairs, some to each peer
//	a.Post(batch.Message{ID: 1, Dst: peer, Bytes: n}, ...)
//	work, err := a.Take()
//	for _, p := range work.Send { ... } // post p.Bytes from p.Offset on p.QP
//	a.Acked(p.Key, n); a.Done(p.Key)    // from completions
//	a.Timeout(p.Key)                    // retries ran out: also Quench, Update
//
// The decisions are [hostagent.Core]'s; this package keeps its clock, its queue
// pairs and the labels in them.
//
// # Queue pairs
//
// RC queue pairs take a round trip to connect, so the library connects them
// beforehand and lends them. A piece gets an idle one to its destination, one
// that has its label already if there is, for that saves a call. If none is idle
// the piece waits, and a later [Agent.Take] gives it. [hostagent.Pieces] says
// how many make that unnecessary. Without a [Config.Labeller] there are no queue
// pairs: every piece is given at once, and the caller labels what it sends it
// on.
//
// # Failures
//
// When a path dies, the queue pairs of the pieces on it have been given other
// labels when the call that brought the word returns; Take says which, for a
// library that wants to hurry the retransmission by a zero-length RDMA WRITE.
//
// # Rules
//
// An [Agent] is safe for concurrent use. It starts no goroutine: [Agent.Run] is
// one, for what becomes due by time; a program that calls into the agent all the
// time may do without. A piece stays known until [Agent.Done]. A new piece whose
// label the labeller refuses on every idle queue pair waits; one under way whose
// flip it refuses goes on with the label it had. Both are tried again every 10 ms
// by Run and by every call; [Work].Err says why.
package batch
