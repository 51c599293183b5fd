// Package daemon runs the controller of a fabric on a network: a P4Runtime and a
// gNMI session per switch, the service that agents watch, and between them the
// controller's core.
//
// A [Daemon] is made with [New] and works while [Daemon.Run] runs. One goroutine
// owns the core and all that is known of switches; sessions post what they hear
// to it and take writes from it. Its other methods are safe for concurrent use
// and ask that goroutine.
//
// # Start
//
// Tables follow from link states, and at the start the states are not known yet.
// Nothing is repaired, and agents are told nothing, until every switch with gNMI
// has told its ports, or [Config.Settle] has passed. So a controller that is
// restarted finds the tables as its predecessor left them, and leaves them so.
//
// # Changes
//
// What the core wants written is carried out one change after another, and of
// each change one stage after another, see package controller; what happens
// meanwhile makes the next change. A switch that does not answer holds a stage up
// for [Config.StageTimeout] at most. A switch whose session broke is left out; it
// is read back and repaired when the session returns.
//
// Agents hear of a link at once, whatever the switches do. Of a link that went down
// they must: until they do, labelled packets go to their deaths at line rate, and no
// table can help those, since a label names one path. Of a link that came up they may:
// its label entries may still be missing, and such a packet falls back to ECMP, which
// leads away from what is down; down-facing routes never went. So neither order loses
// a packet then, and a queue pair is on another path than it thinks for as long as the
// write takes. Only a switch without tables would lose packets; see Death.
//
// # Death
//
// A session that dies takes no link down: switches forward without a controller.
// A link is down when one of its ends says so. [Judge] tells from the neighbours
// whether a switch without sessions is dead or only cut off. A link that comes back
// counts as down until the switches at its ends have their tables: one that was
// restarted has carrier first.
//
// # End
//
// When Run's context ends the sessions are closed and nothing is written: the
// switches go on forwarding as they are, and a standby takes over.
package daemon
