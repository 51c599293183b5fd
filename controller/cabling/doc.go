// Package cabling compares a fabric's cables with the plan: every switch sends
// LLDP frames out of every port by P4Runtime packet-out, hands over what it receives
// by packet-in, and [Compare] says of every link whether it is where it should be,
// and which plugs are to be moved.
//
// [Compare] is pure. [Discover] asks switches that no controller has in hand; a
// running controller does the same over its own sessions, see package daemon, for
// a switch takes packet-outs from its primary only. Both go through a [Round].
//
// A link between switches is confirmed when both ends have received the other: one
// fibre of a pair can be broken. Hosts answer what they receive, see package
// neighbour of the agent, so a host's one frame reports both directions. A host
// with another LLDP agent is known by its name or by its MAC address; that it
// receives the switch's frames is then not known, and such agents send every 30 s only.
package cabling
