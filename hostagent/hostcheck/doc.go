// Package hostcheck looks at what a host's part in the fabric depends on: its
// interface, addresses and clock, the kernel and its privileges, and what of an RNIC
// can be seen without vendor tools. What cannot is said to be unseen.
//
// It reads /proc and /sys and asks netlink; it changes nothing.
package hostcheck

import "errors"

// ErrConfig is wrapped by the errors of [Run].
var ErrConfig = errors.New("hostcheck: bad config")
