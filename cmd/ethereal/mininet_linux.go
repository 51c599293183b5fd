package main

import (
	"os/exec"
	"runtime"
	"syscall"
)

// endWithParent has a command get SIGTERM when this process dies, however that happens. The caller starts the command
// and waits for it on one goroutine, and then calls done.
func endWithParent(cmd *exec.Cmd) (done func()) {
	runtime.LockOSThread() // the signal comes when the thread that started the command ends
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	return runtime.UnlockOSThread
}
