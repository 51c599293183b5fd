// Package hostcheck checks what a host's part in the fabric depends on: its interface, addresses and clock, the
// kernel, the privileges, and those properties of an RNIC that are visible without vendor tools. It reports the
// others as unseen.
//
// It reads /proc and /sys and asks netlink; it changes nothing.
package hostcheck

import "errors"

// ErrConfig is wrapped by the errors of [Run].
var ErrConfig = errors.New("hostcheck: bad config")
