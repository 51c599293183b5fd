package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ethereal-fabric/ethereal/internal/printable"
)

// Process is a child process of the process that started the fabric.
type Process struct {
	name string
	cmd  *exec.Cmd
	log  string        // file with its output
	done chan struct{} // closed when it has ended
	err  error         // why, then

	endedByUs atomic.Bool // this process ended it, or is about to
}

// start starts this program with args in a namespace; it dies with the
// thread. onExit, if any, is called when it has ended, before done
// is closed. files are its descriptors from 3 on.
func (t *thread) start(ns namespace, name, dir string, args []string, onExit func(*Process), files ...*os.File) (*Process, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("live: %w", err)
	}
	return t.startProgram(ns, name, dir, append([]string{exe}, args...), onExit, files...)
}

// startProgram is start for another program, the first of the command's words.
func (t *thread) startProgram(ns namespace, name, dir string, command []string, onExit func(*Process), files ...*os.File) (*Process, error) {
	p := &Process{name: name, cmd: exec.Command(command[0], command[1:]...), log: dir + "/" + name + ".log", done: make(chan struct{})}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("live: %w", err)
	}
	defer out.Close() //nolint:errcheck // the child has it
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.ExtraFiles = out, out, files
	p.cmd.Env = append(os.Environ(), sandboxEnv+"=")
	if os.Getenv("GOMAXPROCS") == "" {
		// A fabric has tens of processes and a machine few cores: a process that
		// runs on several looks for work, at every packet, that others have.
		p.cmd.Env = append(p.cmd.Env, "GOMAXPROCS=1")
	}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := t.in(ns, p.cmd.Start); err != nil {
		return nil, fmt.Errorf("live: start %s: %w", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		if onExit != nil {
			onExit(p) // before anybody who waits for the end can start another
		}
		close(p.done)
	}()
	return p, nil
}

// Ended returns nil while the process runs, and otherwise how it ended.
func (p *Process) Ended() error {
	select {
	case <-p.done:
		return p.ending()
	default:
		return nil
	}
}

// ending describes how the process ended.
func (p *Process) ending() error {
	return fmt.Errorf("live: %s has ended: %w%s", p.name, orEnded(p.err), p.tail())
}

var errEnded = errors.New("without an error")

func orEnded(err error) error {
	if err == nil {
		return errEnded
	}
	return err
}

// tail returns the end of the process's output.
func (p *Process) tail() string {
	f, err := os.Open(p.log)
	if err != nil {
		return ""
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	text, err := io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-tailBytes), tailBytes))
	if err != nil || len(text) == 0 {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(printable.Text(string(text))), "\n")
	return "; its last words:\n\t" + strings.Join(lines[max(0, len(lines)-5):], "\n\t")
}

// tailBytes is how much of a log tail reads.
const tailBytes = 8 << 10

// Stop asks the process to end, and kills it if it has not ended in time.
func (p *Process) Stop(ctx context.Context, limit time.Duration) {
	p.endedByUs.Store(true)
	p.cmd.Process.Signal(syscall.SIGTERM) //nolint:errcheck // it has ended
	select {
	case <-p.done:
		return
	case <-time.After(limit):
	case <-ctx.Done():
	}
	p.Kill()
}

// Kill kills the process.
func (p *Process) Kill() {
	p.sendKill()
	<-p.done
}

// sendKill is Kill without waiting.
func (p *Process) sendKill() {
	p.endedByUs.Store(true)
	p.cmd.Process.Kill() //nolint:errcheck // it has ended
}
