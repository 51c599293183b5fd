// Package hostagent decides, at one host of a RoCEv2 fabric, which path every
// byte takes: it is Ethereal (arXiv 2407.00550) as a state machine, with fast
// reaction to failures.
//
// A [Core] splits each batch of flows into pieces, gives every piece a queue
// pair and a path label, and moves pieces off paths that died. It is pure:
// events and the time go in by method calls, decisions come out of
// [Core.Ready]. It has no goroutine, socket or clock, and the same calls with
// the same seed give the same decisions. Its driver, a NIC's verbs, a
// simulator, a collective library, does what Ready says.
//
//	core, err := hostagent.New(hostagent.Config{Fabric: f, Host: rank})
//	core.Post(now, flows)
//	ready := core.Ready() // open ready.Open with their labels, then do ready.Flip
//	...
//	core.Timeout(now, qp) // or Quench, Update: something died
//	ready = core.Ready()  // ready.Flip: new labels for the queue pairs on dead paths
//
// # Batches
//
// [Core.Post] takes what was sent within one batching window (100 ns in the
// reference evaluation). Per destination ToR it deals the flows over the good
// paths as [Split] describes: exactly even load, with the fewest pieces. Flows
// under the host's own ToR are sent at once, unlabelled. The order of
// destination ToRs, of flows and of paths is shuffled first, seeded by the
// host's rank; that is the random starting path. Theorem 1 needs flows of equal
// size within a batch, equal uplinks and switches that follow labels. Unequal
// sizes are this project's extension, stated at [Split]. Paths of unequal rate get
// unequal shares, [SplitWeighted]: see Slow paths.
//
// Fewer paths need fewer pieces, down to one on the last path. But an endpoint's rate
// control is per queue pair: one that sends at line rate into half the capacity halves
// its rate as often as several together, and wins it back by one queue pair's steps. So
// where paths are dead every piece is cut once more, on its path, into as many parts as
// fit into the number of queue pairs that all paths would have had.
//
// # Planes
//
// In a fabric of several planes Theorem 1 over all uplinks of a rack, whatever their plane, would load
// these alike, and not the ports of who receives: the two halves of a flow may take one plane. Who receives
// receives from many senders that do not know one another. So each flow is first cut into a part for each plane, in
// proportion to the plane's good paths, and the parts are dealt within it: with p planes of s uplinks n
// flows make p*[Pieces](n, s) pieces. That is this project's extension. Paths are then those of all
// planes, under the own ToR one for each, and a host's port is a link like others. While one host
// misses a plane it is dealt to by itself.
//
// # Failures
//
// Word of a dead path comes in four independent ways, and the first counts:
//
//   - [Core.Timeout]: a queue pair's retransmission timer expired. The path to
//     that ToR is taken for dead for [Config.FailedPathMemory]. Since nobody
//     knows where it broke, the new label differs in both tiers if it can. If packets
//     to that ToR were marked within [Config.Calm] a probe decides first.
//
//   - [Core.Quench]: a switch says that a packet of ours met a dead port. The
//     port names a link, and all paths over it die, to every ToR, for as long.
//     A quench is not authenticated; see Trust.
//
//   - [Core.Update]: a controller says that a link is down. Its paths are dead
//     until a controller says that it is up.
//
//   - [Core.Lost]: a receiver asked for a packet, or an acknowledgement did not come.
//     The path, and then the least set of paths with the others by the same uplink that
//     lose, is left by a sequential test; see below.
//
// What no switch notices, hosts find out by time-outs. A path that timed out is in
// [Ready.Failed], for a controller that joins all agents' words. When it finds the
// link it notifies all agents of its suspicion, which counts like a report that the
// link is down, until it takes it back; so the others need no time-out of their own.
//
// Then the pieces on dead paths, and no others, get a new label: the good path
// with the least outstanding bytes towards that ToR; among equals the one whose
// first uplink has the least of this host's outstanding bytes; among those, a
// seeded order. A piece remembers its home, the path it was dealt, and returns
// to it when the path does: when a controller says that the link is up, or when
// the memory expires.
//
// If all paths to a ToR are dead the last that was good is used nevertheless.
//
// Words are idempotent. A controller's are ordered by each link's epoch, a
// quench's by the epoch of (switch, port); what is not newer changes nothing.
//
// # Loss
//
// A queue pair has one path, so what it loses is lost there. [LossTest] weighs the
// packets that a path has lost against those that arrived: Wald's sequential test of
// the loss ratio of a healthy link, 1e-7, against the least that is worth leaving,
// 1e-3. A healthy path is left for at most one in a thousand of its tests (Alpha), a
// lossy one kept for one in a hundred (Beta). With these defaults the first loss among
// some two thousand packets decides. Three things keep that from being wrong:
//
//   - Congestion: no loss counts where a packet on that path was marked since the lost
//     one was sent ([Core.Congested]). Marks on what comes in excuse lost
//     acknowledgements alone.
//   - The others: where most other uplinks of this host lose packets too, their median
//     takes the place of the healthy ratio. What the whole fabric loses is no reason.
//   - The last good path is kept.
//
// A path that was left is probed: rounds of zero-length writes, down its label, which
// are pieces of no bytes in [Ready.Open]. It comes back when the same test, of the
// probes, finds it healthy. Callers that cannot report [Core.Lost] need none of this.
//
// # Slow paths
//
// A path that works, but slower than others, keeps a share of the load: its weight. Two things show that a path is slow:
//
//   - Marks ([Core.Congested]): for two round trips the packets by it were marked, and those by another path to the same
//     ToR, with half as much left to send or more, were not. Where all packets by an uplink are marked, to whatever host,
//     it is the uplink. If the packets to one host are still marked by the next path, it is the host: the path gets its
//     share back.
//   - A race: of the pieces of one flow, half are done, and one more was acknowledged for no more than 0.6 of what its
//     path's share would make by then, two round trips or more behind. A path without acknowledgements is not slow: it may be
//     dead.
//
// The share is then halved, or set to what the race shows, down to an eighth, and pieces leave the path ([BySlow]) until
// what is left by it fits its share. The next batches are cut by weights. The share doubles with each
// [SlowTest].Memory, and when a path of less than all is done early.
//
// Load that has moved makes marks elsewhere. So no other path is judged by marks that began after a move, for the memory's
// length, nor while a path to a ToR in use is dead or has a link that is known to be slow: then loads are uneven by need.
//
// A controller can know a link's rate ([statepb.LinkRate]): its switches report the speed of their ports. Then batches are
// cut by rates at once, and nothing has to be found out.
//
// A piece that leaves a slow path goes on as a fresh queue pair would: at line rate, since its rate was the old path's.
//
// # Silence
//
// A queue pair that is not answered, while others of the host are, has likely met a dead
// path. [Core.Unanswered] moves it to a spare path, and has a probe follow on the path it
// left. Packets on a path stay in order: when the probe is answered, and nothing that was
// sent before it ([Core.Late]), a packet was lost there; when the probe is not answered,
// two were. The test above decides. The queue pair returns when the probe is answered,
// unless it had been moved before. Marks on the path excuse a silence; marks on other
// paths to the same ToR do so three times, as do links near it that are known to be dead
// and doubts about all other uplinks, since the path then carries more. Where switches
// pause senders ([LossTest]), an unanswered probe is no evidence.
//
// # Trust
//
// A quench is believed only if its IP source is a host towards which this agent
// has sent, the port is one through which packets leave on a path used towards
// that host, the epoch is plausible, and not too many were believed recently. So
// a forger must know the fabric and the traffic. For the time of the memory he
// can move traffic onto fewer paths and, by an epoch ahead of the switch's, have
// the switch's own quenches of that port ignored. He cannot empty the path set,
// and what a controller says stands above what a quench said.
//
// Our switches drop quenches and notices that a host sends. Other switches do not, so
// there is a second limit. While a controller is connected ([Config.Silence]) it has to
// confirm a dead link before the memory ends: quenches alone do not prolong it. If it
// does not, the path returns, and further quenches about that link are refused for the
// memory's length, twice as long each time, up to 128 times. A controller's update about
// the link ends that. Time-outs and losses are evidence of their own throughout.
//
// A notice names no packet, so only the fabric has to be known to forge one. Switches
// take none from a host, and [ParseQuench] none that comes from a host's address. The
// limits of epoch and rate are those of quenches.
//
// # Rules
//
// A Core is not safe for concurrent use. Time must not go backwards: an earlier
// time than the last is taken for the last. The slices of a [Ready] are valid
// until the next call of Ready. Call [Core.Tick] when [Core.Deadline]
// comes; every other call does what is due by its time as well. A queue pair
// stays known until [Core.Done]: call it, or the core grows.
package hostagent
