// Package rollout decides when a controller writes tables and notifies agents: in which order, after which waits,
// and which writes are repeated. Package controller computes the contents.
//
// A [Core] is a state machine without goroutines, clock or network. Its inputs are the messages of switches,
// agents, operators and other controllers, with the time. [Core.Ready] returns the writes and notifications, and
// [Core.Deadline] says when [Core.Tick] is due. Every world uses the same core; the differences between worlds are
// in [Config].
//
//	c, err := rollout.New(now, cfg)
//	c.TablesRead(now, node, entries, 0) // of every switch
//	c.PortState(now, node, port, false)
//	r := c.News(now)
//	// log r.Events, publish r.Notices, ...
//	r = c.Ready(now)
//	// send r.Writes, ...
//	c.Written(now, r.Writes[0].ID, rollout.Acknowledged)
//	r = c.Ready(now)
//
// # Start
//
// Tables follow from link states, and at the start the states are not known yet. Nothing is written or notified
// until every reachable switch has reported its ports and the peers have reported the drains, or [Config.StartWait]
// has passed. So a restarted controller finds its predecessor's tables and leaves them unchanged: recovery is the
// start again.
//
// # Changes
//
// Changes are written one after another, and the stages of a change one after another (see package controller).
// Events that happen meanwhile make the next change. A switch that does not answer delays a stage by at most
// [Config.StageTimeout]. A switch without an open session is left out; it is read back and repaired when its
// session opens.
//
// # Bad news
//
// Agents are notified at once of a link that went down, or was drained or suspected, before switches are written.
// Until agents flip, labelled packets are lost, and no table can prevent that, since a label names one path.
// [Core.TakeNotices] returns these notices before tables are computed.
//
// # Good news
//
// Agents are notified that a link is back when the writes of its change are answered or given up. If the link goes
// down again before that, its return is never announced. The other order, at once, loses no packet: switches hash a
// label that they do not know yet over the live uplinks, and down-facing routes were never removed. But a queue
// pair then moves twice, after the announcement and after the write, and it moves to every link that flaps.
//
// Both were measured in the virtual world, on a fat-tree of 4-port switches with the scenario's default delays, a
// ToR's uplink cut at 20 us, mean CCT of an all-to-all of 16 MB over seeds 1 to 6 (testbed/scenarios/order.yaml):
//
//	                              when written   at once
//	restored at 200 us            568 us         1189 us
//	flapping every 100 us, four   568 us         1012 us
//	an aggregation's, restored    399 us          407 us
//
// At once is better where the link is half of a ToR's capacity and the collective lasts much longer than the
// writes. With 96 MB and a return at 900 us it takes 4.22 ms against 4.70 ms, because the other ToRs can use the
// link before the link's own ToR is written. If links come back after seconds, the milliseconds of the writes do
// not matter. If links flap, every announcement costs. [Config.RestoredAtOnce] selects the other order.
//
// # Ports
//
// A port that goes down is believed at once. A port that comes up is believed unless it flaps (package damping) or
// is early: a link counts as down until the switches at its ends have their tables, see [Config.TablesWait].
package rollout
