// Package adopt is the agent for programs that know nothing of it. It finds
// their queue pairs by the packets that pass, gives each a path, moves those
// whose path dies, and forgets those that went quiet.
//
//	t, err := tagger.Attach(tagger.Config{Interfaces: []string{"eth1"}})
//	a, err := adopt.New(adopt.Config{Agent: hostagent.Config{Fabric: f, Host: rank}, Labels: t})
//	go a.Run(ctx)
//	a.Update(u); a.Quench(payload, src) // words of failures, as they come
//
// The packets of somebody else's queue pair cannot be dealt over several paths
// without reordering, nor can its messages be cut: Theorem 1 does not hold. Each queue
// pair gets whole the good path that carries the fewest of this host's queue
// pairs to that ToR; among those the one whose first uplink carries the fewest. Its
// first packets, until [Config.Interval] has passed, go unlabelled, by ECMP.
//
// What a labeller that outlives processes goes on labelling is taken over as it
// is, and so is what a queue pair's owner says that it carries: a restart relabels
// no queue pair whose path lives. A label that cannot be set is tried again, after
// 10 ms and then ever longer, up to 5 s.
//
// An [Agent] is safe for concurrent use. It starts no goroutine: [Agent.Run] is
// one.
package adopt
