// Package batch is the host agent as a library, for a collective library or its network plug-in, which has
// connected queue pairs and messages to send. It takes batches of (destination, bytes) and returns pieces with
// labels, each on one of the library's queue pairs, already labelled.
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
// [hostagent.Core] makes the decisions; this package keeps its clock, its queue pairs and their labels.
//
// # Queue pairs
//
// RC queue pairs take a round trip to connect, so the library connects them beforehand and lends them. A piece gets
// an idle one to its destination, preferably one that already has the piece's label, which saves a call. If none is
// idle, the piece waits and a later [Agent.Take] returns it. [hostagent.Pieces] says how many queue pairs prevent
// waiting. Without a [Config.Labeller] there are no queue pairs: every piece is returned at once, and the caller
// labels the queue pair on which it sends the piece.
//
// # Failures
//
// When a call reports that a path died, the queue pairs on that path have new labels before the call returns. Take
// lists them, for a library that speeds up the retransmission by a zero-length RDMA WRITE.
//
// # Rules
//
// An [Agent] is safe for concurrent use. It starts no goroutine. [Agent.Run] is one, for timers; a program that
// calls into the agent all the time does not need it. A piece stays known until [Agent.Done]. If the labeller
// refuses a new piece's label on every idle queue pair, the piece waits. If the labeller refuses a flip, the piece
// goes on with its old label. Run and every call try both again, every 10 ms; [Work].Err gives the reason.
package batch
