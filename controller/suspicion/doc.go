// Package suspicion finds links that fail although no switch reports a failure: black holes, and links that lose a
// part of their packets.
//
// A single agent whose queue pair timed out knows only that one path has a fault. A [Core] combines the reports of
// all agents over the fabric's links, names the likeliest link, and requests probes until the suspicion is
// confirmed or cleared. It is a state machine without goroutines, clock or network, for the controller of any
// world: it takes reports, probe results and the time, and [Core.Ready] returns suspicions and probe requests. It
// is not safe for concurrent use.
//
//	s, err := suspicion.New(suspicion.Config{Fabric: f})
//	s.Report(now, suspicion.Report{Host: 3, Dst: 17, Label: l, Timeouts: 1})
//	...
//	s.Tick(now) // at s.Deadline()
//	r := s.Ready()
//	// notify all agents of r.Suspicions, ask the agents named in r.Probes
//	s.ProbeResult(now, host, id, sent, lost)
//
// # Judgement
//
// Reports are gathered for [Config.Gather], counted from the first report without an explanation. Then every link
// counts the reports whose path crosses it, and every host counts its reports, as source and as destination. The
// link or host that explains most reports is the culprit. Its reports are set aside and the rest is judged again,
// so that simultaneous failures are distinguished [after Arzani et al., 007, NSDI 2018].
//
//   - A host that explains more reports than any link, over more than one path, is broken or overloaded: no link is
//     blamed for its reports.
//   - A link that explains more reports than all others, from at least [Config.Agents] agents, is suspected at once.
//   - Otherwise the links that explain equally many reports are probed. Each probe's path crosses one of these links
//     and as few of the others as possible. Links that lose probes are suspected, if [Config.Trials] is above 1 only
//     after as many trials in a row.
//
// Reports of paths over a link that is down or suspected already are explained, and not counted.
//
// # Probes
//
// A suspected link is probed at once and then at growing intervals, by two hosts at a time. They send small packets
// over two paths across the link, with the paths' labels, although agents otherwise avoid these paths. Where
// possible, the paths' other links are neither suspected nor part of a lost probe of this link. A link cannot be
// worse than the better of the two results. A round in which both paths lose packets confirms the suspicion, and
// the next round uses other paths. [Config.CleanRounds] rounds without loss clear it; the number doubles each time
// the link is suspected again soon. A suspicion that no host can probe is dropped after [Config.Hold], a confirmed
// one after [Config.Forget]. So a link that loses one packet in many is found repeatedly, at growing intervals. A
// link that lost some packets by congestion is used again after a few round trips.
//
// # Trust
//
// Reports come from agents. One agent alone cannot cause a suspicion without probes, unless Config.Agents is 1. At
// most [Config.Most] links are suspected at a time, and memory is bounded. Agents that suspect every link reduce
// the other agents' choice of paths, but not to nothing: an agent keeps its last good path.
//
// # Traps
//
// A link is suspected in both directions: acknowledgements take the reverse of the data's path, so agents cannot
// distinguish the directions. A switch that loses packets is suspected link by link.
package suspicion
