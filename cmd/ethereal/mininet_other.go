//go:build !linux

package main

import "os/exec"

// endWithParent does nothing here: Mininet takes Linux.
func endWithParent(*exec.Cmd) (done func()) { return func() {} }
