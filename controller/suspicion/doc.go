// Package suspicion finds the links that fail without any switch noticing:
// black holes and links that lose a part of what they carry.
//
// One agent whose queue pair timed out knows only that something on one path is
// wrong. A [Core] joins the reports of all agents over the fabric's links, names
// the likeliest link, and has it probed until that is confirmed or cleared. It is
// a state machine without goroutines, clock or network, for a controller of any
// world: reports, probe results and the time go in, suspicions and probe requests
// come out of [Core.Ready]. It is not safe for concurrent use.
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
// Reports are gathered for [Config.Gather] from the first that nothing explains.
// Then every link counts the reports whose path crosses it, and so does every
// host, as source and as destination. The thing that explains most reports is the
// culprit; what it explains is set aside, and the rest is judged again, so that
// simultaneous failures are distinguished [after Arzani et al., 007, NSDI 2018].
//
//   - A host that explains more than any link, over more than one path, is a
//     broken or overloaded host: no link is blamed for it.
//   - A link that explains more than all others, for at least [Config.Agents]
//     agents, is suspected at once.
//   - Otherwise the links that explain most, equally, are probed, each over a path
//     that crosses it and as few of the others as can be. Those that lose probes
//     are suspected.
//
// Reports of paths over a link that is known to be down or suspected already are
// explained, and not counted.
//
// # Probes
//
// A suspected link is probed at once and then at growing intervals, by two hosts
// at a time: small packets over two paths across the link, with their labels,
// although agents avoid them for everything else. Paths are taken whose other links
// are neither suspected nor were part of a lost probe of this link, as far as there are such. A link cannot be worse than the
// better of the two. A round in which both lose packets confirms the suspicion, and
// the next takes other paths; [Config.CleanRounds] rounds without loss clear it, twice as many each time a link is suspected again soon. A
// suspicion that nobody can probe is dropped after [Config.Hold], a confirmed one after
// [Config.Forget]. So a link that
// loses one packet in many is found again and again at growing intervals, and one
// that lost some by congestion is back after a few round trips.
//
// # Trust
//
// Reports come from agents. One agent alone cannot have a link suspected without
// probes, unless Config.Agents is 1; no more than [Config.Most] links are suspected at
// a time; memory is bounded. Agents that suspect everything cost the others choice of
// paths, never all of it: an agent keeps its last good path.
//
// # Traps
//
// A link is suspected in both directions: acknowledgements take the data's path
// back, so agents cannot distinguish the directions. A switch that swallows
// packets is suspected link by link.
package suspicion
