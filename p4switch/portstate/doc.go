// Package portstate keeps the state of a switch's ports: whether each is enabled and has a link. SetOper and
// SetAdmin change it. Observers learn of every change in the order in which they were added: the P4Runtime core,
// which fails selectors and multicast groups over, then gNMI subscribers.
package portstate
