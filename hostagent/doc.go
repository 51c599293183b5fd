// Package hostagent decides, at one host of a RoCEv2 fabric, which path every byte takes. It is Ethereal (arXiv
// 2407.00550) as a state machine, with fast reaction to failures.
//
// A [Core] splits each batch of flows into pieces, gives every piece a queue pair and a path label, and moves
// pieces off paths that died. It is pure: events and the time enter by method calls, and [Core.Ready] returns
// decisions. It has no goroutine, socket or clock, and the same calls with the same seed give the same decisions.
// Its driver (a NIC's verbs, a simulator, a collective library) carries the decisions out.
//
//	core, err := hostagent.New(hostagent.Config{Fabric: f, Host: rank})
//	core.Post(now, flows)
//	ready := core.Ready() // open ready.Open with their labels, then do ready.Flip
//	...
//	core.Timeout(now, qp) // or Quench, Update: something died
//	ready = core.Ready()  // ready.Flip: new labels for the queue pairs on dead paths
//
// # Parts
//
// Each part has its own state. Detectors write their own only:
//
//	paths      links' states, destinations, bytes outstanding; which paths are dead or slow, and the evidence
//	timeouts   paths that timed out, until the memory ends
//	losses     paths that lose packets; the sequential test, marks, and the probes of paths that were left
//	questions  paths that do not answer probes, and the links that several of them convict
//	quenches   which quenches are believed, and until when
//	pushes     which controller is followed, and the epochs of its reports
//	slowPaths  shares of slow paths and uplinks, by marks and by races ([pieceRace])
//	pieces     open queue pairs; batch is the scratch space of Post
//	site       what all share: the host's place in the fabric, the time, counts, and the Ready that is being filled
//
// A detector draws a conclusion, its verdict, and moves nothing. Timeouts, losses and questions find paths dead:
// paths asks each of them for its verdict on a destination. Quenches, pushes and questions find links dead: each sets
// and clears its own bits of a link's evidence. Then Core moves the pieces (moves.go) off dead paths, or back.
//
// docs/architecture.md follows a link-down event from a switch's gNMI message to a queue pair's new label.
//
// # Batches
//
// [Core.Post] takes the flows of one batching window (100 ns in the reference evaluation). Per destination ToR it
// deals the flows over the good paths as [Split] describes: exactly even load, with the fewest pieces. Flows under
// the host's own ToR are sent at once, without label. The order of destination ToRs, of flows and of paths is
// shuffled first, seeded by the host's rank; that is the random starting path. Theorem 1 needs flows of equal size
// within a batch, equal uplinks and switches that follow labels. Unequal sizes are this project's extension, stated
// at [Split]. Paths of unequal rate get unequal shares ([SplitWeighted]); see Slow paths.
//
// Fewer paths need fewer pieces, down to one on the last path. But an endpoint controls its rate per queue pair.
// One queue pair that sends at line rate into half the capacity halves its rate as often as several together would,
// but recovers it by the steps of one. So where paths are dead, every piece is cut again, on its path, so that
// there are as many queue pairs as if all paths were alive.
//
// # Planes
//
// In a fabric of several planes, Theorem 1 over all uplinks of a rack would load these uplinks evenly, but not the
// receiver's ports: the two halves of a flow may take one plane, and a receiver's many senders do not know one
// another. So each flow is first cut into one part per plane, in proportion to the plane's good paths, and the
// parts are dealt within their plane. With p planes of s uplinks, n flows make p*[Pieces](n, s) pieces. That is
// this project's extension. The paths are then the paths of all planes (under the own ToR, one per plane), and a
// host's port is a link like others. A destination host that misses a plane is dealt to separately.
//
// # Failures
//
// A host learns of a dead path in four independent ways, and the first counts:
//
//   - [Core.Timeout]: a queue pair's retransmission timer expired. The path to that ToR is taken for dead for
//     [Config.FailedPathMemory]. Since the place of the failure is unknown, the new label differs in both tiers if it
//     can. If the driver can ask paths, the path is asked first, and stays if it answers; without marks within
//     [Config.Calm], that counts as one loss.
//
//   - [Core.Quench]: a switch reports that one of this host's packets met a dead port. The port names a link, and all
//     paths over it die, to every ToR, for as long. A quench is not authenticated; see Trust.
//
//   - [Core.Update]: a controller reports that a link is down. Its paths are dead until a controller reports it up.
//
//   - [Core.Lost]: a receiver asked for a packet, or an acknowledgement did not come. A sequential test decides when to
//     leave the path, or the smallest set of losing paths by the same uplink; see Loss.
//
// Hosts find failures that no switch notices by time-outs. A path that timed out is in [Ready.Failed], for a
// controller that combines the reports of all agents. When the controller finds the link, it notifies all agents of
// its suspicion. Until the controller withdraws it, a suspicion counts like a report that the link is down, so the
// other agents need no time-out.
//
// Then only the pieces on dead paths get a new label: the good path with the fewest outstanding bytes towards that
// ToR; among equal ones, the path whose first uplink has the fewest outstanding bytes of this host; among these, a
// seeded order. A piece remembers its home, the path that it was dealt. It returns there when the path is good
// again: when a controller reports the link up, or when the memory expires.
//
// If all paths to a ToR are dead, the last good one is used nevertheless.
//
// Notifications are idempotent. A controller's are ordered by each link's epoch, a quench's by the epoch of
// (switch, port); a notification that is not newer changes nothing.
//
// # Loss
//
// A queue pair has one path, so its packets are lost on that path. [LossTest] compares the packets that a path has
// lost with those that arrived. It is Wald's sequential test of a healthy link's loss ratio, 1e-7, against the
// smallest ratio at which leaving pays, 1e-3. A healthy path is left in at most one in a thousand of its tests
// (Alpha), and a lossy path is kept in one in a hundred (Beta). With these defaults, the first loss among some two
// thousand packets decides. Three rules prevent wrong decisions:
//
//   - Congestion: a loss does not count if a packet on that path was marked after the lost packet was sent
//     ([Core.Congested]). Marks on incoming packets excuse lost acknowledgements alone.
//   - Other uplinks: if most other uplinks of this host lose packets too, their median replaces the healthy ratio. A
//     loss of the whole fabric is no reason to leave one path. A loss does not count if half of the other uplinks in
//     use lost packets within two round trips.
//   - The last good path is kept.
//
// A path that was left is probed by rounds of zero-length writes with its label; in [Ready.Open] they are pieces of
// no bytes. It is used again when the same test, on the probes, finds it healthy. Callers that cannot report
// [Core.Lost] need none of this.
//
// # Slow paths
//
// A path that works, but slower than others, keeps a share of the load: its weight. Two observations raise a doubt:
//
//   - Marks ([Core.Congested]): for four round trips, the packets by this path were marked, and those by another path
//     were not, and that path delivered half as much again. If all packets by an uplink are marked, whatever their
//     destination, the uplink is doubted.
//   - A race: half of a flow's pieces are done, and another piece, at least two round trips behind, has at most 0.6 of
//     its expected bytes acknowledged. A path without acknowledgements is not slow: it may be dead.
//
// Neither is a proof: the destination can be slow, or the queue pairs can have low rates. So the path is asked. Two
// queue pairs without bytes ([Ready].Open) carry a probe each to one host, at the same time and in the data's class:
// one by this path, one by the other. If its probe takes twice as long as the other's, and two idle round trips longer,
// the queues on it are longer. On a healthy fabric that passes. So the path is slow if it is so three times in a row,
// each time beside another path.
//
// The share is then halved, or set to the rate that the race shows, down to an eighth. Pieces leave the path
// ([BySlow]) until the rest fits its share. The next batches are cut by weights. The share doubles with each
// [SlowTest].Memory, and when a path with less than a full share finishes early.
//
// Moved load makes marks elsewhere. So marks that began after a move do not count against other paths for the
// memory's length. They do not count either while a path to a ToR in use is dead or has a link that is known to be
// slow: loads are then uneven by necessity.
//
// A controller can know a link's rate ([statepb.LinkRate]), because its switches report the speed of their ports.
// Then batches are cut by rates at once, without observation.
//
// The comparison assumes that links which work are loaded alike, as Theorem 1 has it. In a dragonfly they are not: a
// link of one host's longer path carries others' minimal paths. There only rates that a controller reports count.
//
// A piece that leaves a slow path starts at line rate, as a fresh queue pair would, because its rate was the old
// path's.
//
// # Asking a path
//
// Silence of data is no evidence against a path: data wait wherever the fabric is busy, above all at the receiver's
// link, which all paths to the receiver share. So when an answer is overdue ([Core.Overdue]), the path is asked:
// [Ready].Ask lists path probes, which the driver sends with the path's label in a class in which no data delay them,
// and whose answers it reports to [Core.Answered]. A path is dead if its probes are not answered in time while the same
// host answers by another uplink. If no path answers, the host is gone, and nothing is concluded. Queue pairs stay on a
// path that answers. A dead path is probed until it answers; then they return. Probes are limited to a part of the
// host's link, or of its share of a dragonfly's links ([fabric.Fabric.HostShare]).
//
// Two dead paths convict the last link that both use, unless a path over it has answered since. Then all paths over it
// are left, also to other ToRs; an answer by one of them acquits it.
//
// With [Config].Asks false, for drivers that cannot send probes, a time-out alone decides about a path.
//
// # Trust
//
// A quench is believed only if its IP source is a host to which this agent has sent, packets leave through the port
// on a path used towards that host, the epoch is plausible, and not too many quenches were believed recently. So a
// forger must know the fabric and the traffic. For the memory's length he can move traffic onto fewer paths. By an
// epoch ahead of the switch's he can have the switch's own quenches of that port ignored. He cannot empty the path
// set, and a controller's report overrides a quench.
//
// Our switches drop quenches and notices that a host sends. Other switches do not, so there is a second limit.
// While a controller is connected ([Config.Silence]), it has to confirm a dead link before the memory ends:
// quenches alone do not prolong it. Without confirmation the path returns, and further quenches about that link are
// refused for the memory's length, twice as long each time, up to 128 times. A controller's update about the link
// ends the refusal. Time-outs and losses remain independent evidence.
//
// A notice names no packet, so a forger needs to know only the fabric. Switches accept no notice from a host, and
// ParseQuench of package frame none from a host's address. The limits on epoch and rate are the same as for quenches.
//
// # Rules
//
// A Core is not safe for concurrent use. Time must not go backwards: an earlier time counts as the latest one. The
// slices of a [Ready] are valid until the next call of Ready. Call [Core.Tick] at [Core.Deadline]; every other call
// also does what is due by its time. A queue pair stays known until [Core.Done]: call it, or the core grows.
package hostagent
