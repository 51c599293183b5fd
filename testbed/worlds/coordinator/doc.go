// Package coordinator runs a scenario's collectives on hosts that live in
// processes of their own, and makes of it the same result as the virtual world
// does.
//
// It does not care who made the hosts and what connects them: package live, or
// Mininet. A host is a UNIX socket that speaks package hostproto. What it needs of
// the fabric beside is optional: [Links] to cut and restore links, and what reads the
// switches' counters.
//
// # A run
//
// All hosts are configured, receive the job, and are given one moment to begin at, on the
// clock that they share. From there each plays its rank alone: the coordinator
// listens, cuts links when it is time, compares the checksums of what was posted
// with those of what arrived, and stops at the last rank's end or the scenario's
// deadline. A message that arrives twice, or with other bytes than were sent, or
// not at all although all ranks are done, fails the run.
package coordinator
