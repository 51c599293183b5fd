// Package rollout decides when a controller writes tables and notifies agents of what follows from the links:
// in which order, after which waits, and what of it twice. What that is, package
// controller knows.
//
// A [Core] is a state machine without goroutines, clock or network. What switches, agents,
// operators and other controllers say goes in, with the time; what is to be written and
// notified comes out of [Core.Ready], and [Core.Deadline] says when [Core.Tick] is due. Every
// world has the same core: what differs between worlds is in [Config].
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
// Tables follow from link states, and at the start the states are not known yet. Nothing
// is written or notified until every switch that can has reported its ports, and the peers what is
// drained, or [Config.StartWait] has passed. So a controller that is restarted finds the
// tables as its predecessor left them, and leaves them so: recovery is the start again.
//
// # Changes
//
// One change is written after another, and of each one stage after another, see package
// controller; what happens meanwhile makes the next change. A switch that does not answer
// holds a stage up for [Config.StageTimeout] at most. One whose session is not open is
// left out; it is read back and repaired when the session is.
//
// # Bad news
//
// Agents learn at once of a link that went down, or was drained or suspected, whatever the
// switches do: until they do, labelled packets are lost, and no table can help those,
// since a label names one path. [Core.TakeNotices] has it before tables are computed.
//
// # Good news
//
// Agents learn of a link that is back when the writes of its change are answered, or given
// up on. A link that goes down again before is never announced. The other order, at once,
// loses no packet: a label that its switch does not know yet is hashed over the live
// uplinks, and down-facing routes never went. But a queue pair then moves twice, by the
// announcement and by the write, and to every link that flaps.
//
// Both were measured in the virtual world, on a fat-tree of 4-port switches with the
// scenario's default delays, a ToR's uplink cut at 20 us, mean CCT of an all-to-all of
// 16 MB over seeds 1 to 6 (testbed/scenarios/order.yaml):
//
//	                              when written   at once
//	restored at 200 us            568 us         1189 us
//	flapping every 100 us, four   568 us         1012 us
//	an aggregation's, restored    399 us          407 us
//
// At once is better where the link is half of what a ToR has and the collective lasts much
// longer than the writes: with 96 MB and a return at 900 us it takes 4.22 ms against
// 4.70 ms, for the other ToRs can use the link before its own ToR is written. A fabric
// whose links come back after seconds does not feel the writes' milliseconds; one whose
// links flap feels every announcement. [Config.RestoredAtOnce] is the other order.
//
// # Ports
//
// A port that goes down is believed at once. One that comes up is believed unless it
// flaps, see package damping, or is early: a link counts as down until the switches at its
// ends have their tables, see [Config.TablesWait].
package rollout
