// Package adopt is the agent for programs that do not know of it. It finds their queue pairs from the packets that
// pass, gives each a path, moves those whose path dies, and forgets idle ones.
//
//	t, err := tagger.Attach(tagger.Config{Interfaces: []string{"eth1"}})
//	a, err := adopt.New(adopt.Config{Agent: hostagent.Config{Fabric: f, Host: rank}, Labels: t})
//	go a.Run(ctx)
//	a.Update(u); a.Quench(payload, src) // notifications of failures
//
// The agent can neither spread the packets of another program's queue pair over several paths, which would reorder
// them, nor cut its messages. So Theorem 1 does not hold. Each queue pair gets one whole path: the good path that
// carries the fewest of this host's queue pairs to that ToR; among equal ones, the path whose first uplink carries
// the fewest. Its first packets, until [Config.Interval] has passed, have no label and follow ECMP.
//
// The agent takes over the labels of a labeller that outlives processes, and the labels that a queue pair's owner
// reports: a restart relabels no queue pair whose path is alive. A label that cannot be set is tried again after 10
// ms and then at growing intervals, up to 5 s.
//
// An [Agent] is safe for concurrent use. It starts no goroutine; [Agent.Run] is one.
package adopt
