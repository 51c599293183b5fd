// Package cabling compares a fabric's cables with the plan. Every switch sends LLDP frames out of every port, by
// P4Runtime packet-out, and returns the frames that it receives by packet-in. [Compare] reports for every link
// whether it is in the right place, and which plugs have to be moved.
//
// [Compare] is pure. [Discover] asks switches that have no controller. A running controller uses its own sessions
// instead (package daemon), because a switch accepts packet-outs from its primary only. Both use a [Round].
//
// A link between switches is confirmed when both ends have received each other's frame, because one fibre of a pair
// can be broken. Hosts answer the frames that they receive (package neighbour of the agent), so one frame from a
// host confirms both directions. A host with another LLDP agent is recognised by its name or its MAC address. Such
// agents send every 30 s only, and do not show whether the host receives the switch's frames.
package cabling
