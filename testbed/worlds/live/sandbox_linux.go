package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/testbed/deployment"
)

// sandboxEnv names the folder of a program that runs in its own namespaces.
const sandboxEnv = "ETHEREAL_LIVE_SANDBOX"

// Inside reports whether this process runs in namespaces that [Enter] made, and returns its folder for sockets and
// logs.
func Inside() (dir string, ok bool) {
	dir = os.Getenv(sandboxEnv)
	return dir, dir != ""
}

// folderLock is a file in a folder, locked by the folder's user. The kernel
// ends the lock with the process, however that ends; a process number would be
// given again.
const folderLock = "lock"

// lockFolder locks a folder of this user. It reports false if a process has it.
func lockFolder(dir string) (*os.File, bool, error) {
	if err := deployment.CheckOwner(dir); err != nil {
		return nil, false, err
	}
	f, err := os.OpenFile(filepath.Join(dir, folderLock), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, false, err
	}
	free, err := tryLock(f)
	if !free {
		return nil, false, errors.Join(err, f.Close())
	}
	return f, true, nil
}

// tryLock locks a file. It reports false if a process has it.
func tryLock(f *os.File) (bool, error) {
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, nil
}

// folder is a temporary folder for sockets and logs, owned by this process until close.
type folder struct {
	path string
	lock *os.File
}

// newFolder makes a folder, and removes this user's folders that no process uses any more. It waits for nobody: a
// folder gets its name when it is locked, and nothing outside of it is ever locked.
func newFolder() (*folder, error) {
	old, _ := deployment.LiveFolders()
	for _, path := range old {
		if f, free, err := lockFolder(path); err == nil && free {
			os.RemoveAll(path) //nolint:errcheck // the next one will try again
			f.Close()          //nolint:errcheck // only locked
		}
	}
	unnamed, err := os.MkdirTemp("", fmt.Sprintf(".%s%d-", deployment.LivePrefix, os.Getpid()))
	if err != nil {
		return nil, fmt.Errorf("live: %w", err)
	}
	lock, _, err := lockFolder(unnamed)
	if err != nil {
		return nil, fmt.Errorf("live: %w", errors.Join(err, os.Remove(unnamed)))
	}
	path := filepath.Join(filepath.Dir(unnamed), strings.TrimPrefix(filepath.Base(unnamed), "."))
	if err := os.Rename(unnamed, path); err != nil {
		return nil, fmt.Errorf("live: %w", errors.Join(err, lock.Close(), os.RemoveAll(unnamed)))
	}
	return &folder{path, lock}, nil
}

func (f *folder) close() error { return errors.Join(os.RemoveAll(f.path), f.lock.Close()) }

// Command returns a command that runs this program with args in namespaces of its own, where [Inside] is true. Call
// done after the command has ended: it removes its folder.
func Command(args []string) (cmd *exec.Cmd, done func() error, err error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, nil, fmt.Errorf("live: %w", err)
	}
	dir, err := newFolder()
	if err != nil {
		return nil, nil, err
	}
	cmd = exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), sandboxEnv+"="+dir.path)
	attr := &syscall.SysProcAttr{Cloneflags: hostNamespaces | unix.CLONE_NEWNS | unix.CLONE_NEWPID}
	if !privileged() {
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	cmd.SysProcAttr = attr
	return cmd, dir.close, nil
}

// Enter runs this program again, with args, in its own namespaces, and returns its exit code. It sends SIGTERM when ctx
// ends, and the program dies with this process. page, if not nil, is the socket for [PassedPage]. The error says why
// namespaces cannot be created, and the remedy.
func Enter(ctx context.Context, args []string, page *os.File) (code int, err error) {
	cmd, done, err := Command(args)
	if err != nil {
		return 0, err
	}
	defer done() //nolint:errcheck // the next one will try again
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if page != nil {
		cmd.ExtraFiles = []*os.File{page}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	runtime.LockOSThread() // the signal comes when the thread that started the child ends
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return 0, noNamespaces(err)
	}
	stop := context.AfterFunc(ctx, func() { cmd.Process.Signal(syscall.SIGTERM) }) //nolint:errcheck // it has ended
	defer stop()
	err = cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return exit.ExitCode(), nil
	}
	if err != nil {
		return 0, fmt.Errorf("live: %w", err)
	}
	return 0, nil
}

func noNamespaces(err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EACCES) {
		return fmt.Errorf("live: no network namespaces: %w; run it as root, or allow users namespaces (sysctl "+
			"user.max_user_namespaces, kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns)", err)
	}
	return fmt.Errorf("live: %w", err)
}

// privileged reports whether this process may make namespaces without one for
// users.
func privileged() bool {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return os.Geteuid() == 0
	}
	const want = 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_NET_ADMIN | 1<<unix.CAP_NET_RAW
	return data[0].Effective&want == want
}

// thread is an operating system thread that does what needs one: it enters other
// network namespaces, and starts processes in them that die with it.
type thread struct {
	jobs chan func()
	end  chan struct{}
	home namespace // which it began in
}

// newThread starts a thread. It lives until close.
func newThread() (*thread, error) {
	t := &thread{jobs: make(chan func()), end: make(chan struct{})}
	ready := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		var err error
		t.home, err = ownNamespace()
		ready <- err
		if err != nil {
			return
		}
		for {
			select {
			case f := <-t.jobs:
				f()
			case <-t.end:
				return
			}
		}
	}()
	if err := <-ready; err != nil {
		return nil, err
	}
	return t, nil
}

// namespace are the kernel's namespaces of one host: its interfaces, its name, and its shared memory (System V IPC).
// UCX takes two processes of one IPC namespace for processes of one host, and joins them by shared memory.
type namespace struct{ net, uts, ipc int }

// hostNamespaces are a host's namespaces, as unshare has them.
const hostNamespaces = unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC

func ownNamespace() (n namespace, err error) {
	for _, x := range []struct {
		fd   *int
		name string
	}{{&n.net, "net"}, {&n.uts, "uts"}, {&n.ipc, "ipc"}} {
		if *x.fd, err = unix.Open("/proc/thread-self/ns/"+x.name, unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			return n, fmt.Errorf("live: %w", err)
		}
	}
	return n, nil
}

// enter has the calling thread be in the namespace.
func (n namespace) enter() error {
	if err := unix.Setns(n.net, unix.CLONE_NEWNET); err != nil {
		return err
	}
	if err := unix.Setns(n.uts, unix.CLONE_NEWUTS); err != nil {
		return err
	}
	return unix.Setns(n.ipc, unix.CLONE_NEWIPC)
}

func (n namespace) close() {
	for _, fd := range []int{n.net, n.uts, n.ipc} {
		unix.Close(fd) //nolint:errcheck // only read
	}
}

// do calls f in the thread.
func (t *thread) do(f func() error) error {
	done := make(chan error)
	t.jobs <- func() { done <- f() }
	return <-done
}

// in calls f in the thread, in a namespace.
func (t *thread) in(ns namespace, f func() error) error {
	return t.do(func() error {
		if err := ns.enter(); err != nil {
			return fmt.Errorf("live: enter a namespace: %w", err)
		}
		err := f()
		if back := t.home.enter(); back != nil {
			err = errors.Join(err, fmt.Errorf("live: leave a namespace: %w", back))
		}
		return err
	})
}

// newNamespace makes a namespace whose loopback is up, for a host of that name.
func (t *thread) newNamespace(name string) (ns namespace, err error) {
	err = t.do(func() error {
		if err := unix.Unshare(hostNamespaces); err != nil {
			return fmt.Errorf("live: new namespace: %w", err)
		}
		if err = unix.Sethostname([]byte(name)); err != nil {
			err = fmt.Errorf("live: name a host: %w", err)
		}
		if err == nil {
			ns, err = ownNamespace()
		}
		if err == nil {
			err = setUpNamespace()
		}
		if back := t.home.enter(); back != nil {
			err = errors.Join(err, fmt.Errorf("live: leave a namespace: %w", back))
		}
		return err
	})
	return ns, err
}

// setUpNamespace sets up the thread's network namespace: the loopback is up, and the
// kernel itself sends nothing.
func setUpNamespace() error {
	for _, name := range []string{"all", "default"} {
		// Where it cannot be written, hosts and switches drop what comes.
		os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/disable_ipv6", []byte("1"), 0o644) //nolint:errcheck // see above
	}
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		return fmt.Errorf("live: loopback: %w", err)
	}
	return nil
}

// close ends the thread, and all processes that it started.
func (t *thread) close() {
	close(t.end)
	t.home.close()
}

// WaitFor calls ok repeatedly until it returns true, ctx ends, or the limit has passed; what names it in the error. An
// error that ok returns with true is returned.
func WaitFor(ctx context.Context, limit time.Duration, what string, ok func() (bool, error)) error {
	began := time.Now()
	var last error
	for {
		done, err := ok()
		if done {
			return err
		}
		if err != nil {
			last = err
		}
		since := time.Since(began)
		if since > limit {
			return errors.Join(fmt.Errorf("live: %s: not within %v", what, limit), last)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(max(2*time.Millisecond, since/20), 200*time.Millisecond)): // what lasts is asked for seldom
		}
	}
}
