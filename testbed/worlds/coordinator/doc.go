// Package coordinator runs a scenario's collectives on hosts that are separate processes, and makes a result of the
// same form as the virtual world's.
//
// It does not depend on who made the hosts and their network: package live, or Mininet. A host is a UNIX socket
// that speaks package hostproto. Other access to the fabric is optional: [Links] to cut and restore links, and a
// reader of the switches' counters.
//
// # A run
//
// All hosts are configured, receive the job, and begin at one given moment on the clock that they share. From then
// on each runs its rank alone. The coordinator listens, cuts links at their times, and compares the checksums of
// the posted messages with those of the arrived ones. It stops at the last rank's end or the scenario's deadline. A
// run fails if a message arrives twice or with other bytes than were sent, or does not arrive although all ranks
// are done.
package coordinator
