package device

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/internal/systemtest"
)

// opener is a program that opens the device.
const opener = `
#include <infiniband/verbs.h>
#include <stddef.h>
int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	if (!list || !list[0])
		return 4;
	return ibv_open_device(list[0]) ? 0 : 1;
}
`

// listenAs listens at an abstract socket as a user: the kernel keeps the credentials of the thread that listens.
func listenAs(t *testing.T, name string, uid int) int {
	t.Helper()
	type result struct {
		fd  int
		err error
	}
	done := make(chan result)
	go func() {
		if uid != os.Geteuid() {
			runtime.LockOSThread() // for good: the thread ends with the goroutine
			if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); errno != 0 {
				done <- result{-1, errno}
				return
			}
		}
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			err = unix.Bind(fd, &unix.SockaddrUnix{Name: name})
		}
		if err == nil {
			err = unix.Listen(fd, 1)
		}
		done <- result{fd, err}
	}()
	r := <-done
	if r.err != nil {
		t.Fatal(r.err)
	}
	t.Cleanup(func() { unix.Close(r.fd) }) //nolint:errcheck // the test is over
	return r.fd
}

// given reports whether the next client of a listener sends a descriptor.
func given(t *testing.T, lis int) bool {
	t.Helper()
	limit := &unix.Timeval{Sec: 60}
	unix.SetsockoptTimeval(lis, unix.SOL_SOCKET, unix.SO_RCVTIMEO, limit) //nolint:errcheck // else the test's time ends
	conn, _, err := unix.Accept4(lis, unix.SOCK_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(conn)                                                 //nolint:errcheck // then the client's call ends
	unix.SetsockoptTimeval(conn, unix.SOL_SOCKET, unix.SO_RCVTIMEO, limit) //nolint:errcheck // likewise
	oob := make([]byte, 256)
	_, n, _, _, err := unix.Recvmsg(conn, make([]byte, 4096), oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil && err != unix.ECONNRESET { //nolint:errorlint // an errno
		t.Fatal(err)
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) == 0 {
		return false
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	for _, fd := range fds {
		unix.Close(fd) //nolint:errcheck // it was only looked for
	}
	return err == nil && len(fds) > 0
}

// buildOpener builds the program that opens the device, with the library in it. Other users can run it.
func buildOpener(t *testing.T) string {
	t.Helper()
	cc := systemtest.Program(t, "cc", "", "a C compiler")
	if _, err := os.Stat("/usr/include/infiniband/verbs.h"); err != nil {
		t.Skip("no infiniband/verbs.h (Debian: libibverbs-dev)")
	}
	dir, err := os.MkdirTemp("", "ethereal-test-")
	if err == nil {
		err = os.Chmod(dir, 0o755) //nolint:gosec // other users run what is in it
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) }) //nolint:errcheck // the test is over
	lib := "interpose"
	sources, err := filepath.Glob(filepath.Join(lib, "*.c"))
	if err != nil {
		t.Fatal(err)
	}
	src, exe := filepath.Join(dir, "opener.c"), filepath.Join(dir, "opener")
	if err := os.WriteFile(src, []byte(opener), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-o", exe, src, "-I" + lib}, sources...)
	if out, err := exec.Command(cc, append(args, "-libverbs", "-lpthread")...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return exe
}

// TestOpenWhileStarting has a program open the device while its process is started again: it opens when that listens.
func TestOpenWhileStarting(t *testing.T) {
	exe := buildOpener(t)
	name := fmt.Sprintf("@ethereal-test-%d-starting", os.Getpid())
	c := exec.Command(exe)
	c.Env = append(os.Environ(), "ETHEREAL_NIC="+name)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	for asleep := false; !asleep; { // until it has found no listener
		call, _ := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", c.Process.Pid))
		asleep = strings.HasPrefix(string(call), fmt.Sprintf("%d ", unix.SYS_CLOCK_NANOSLEEP))
		select {
		case err := <-ended:
			t.Fatalf("the program does not wait for the device: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	if !given(t, listenAs(t, name, os.Geteuid())) {
		t.Error("the program does not open the device that listens again")
	}
	<-ended
}

// TestStrangerListens has another user listen where a program expects its device: it gets no memory of the program, and
// the program says who listens. The program's user and root get it, also in user namespaces.
func TestStrangerListens(t *testing.T) {
	exe := buildOpener(t)
	self := os.Geteuid()
	const one, other, nobody = 12345, 12346, 65534
	within := func(host int) *syscall.SysProcAttr { // where that user is root
		return &syscall.SysProcAttr{
			Cloneflags: syscall.CLONE_NEWUSER, UidMappings: []syscall.SysProcIDMap{{HostID: host, Size: 1}},
			Credential:  &syscall.Credential{NoSetGroups: true},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}},
		}
	}
	as := func(uid uint32) *syscall.SysProcAttr {
		return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, NoSetGroups: true}}
	}
	unmapped := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}
	for i, tt := range []struct {
		name             string
		listener         int
		program          *syscall.SysProcAttr
		trusts, needRoot bool
		says             string
	}{
		{"the same user", self, nil, true, false, ""},
		{"a stranger, root", other, nil, false, true, "user 12346 listens"},
		{"a stranger", other, as(one), false, true, "user 12346 listens"},
		{"a user's own", one, as(one), true, true, ""},
		{"root's", 0, as(one), true, true, ""},
		{"nobody's own", nobody, as(nobody), true, true, ""},
		{"nobody, root", nobody, nil, false, true, "user 65534 listens"},
		{"the namespace's root", self, within(self), true, false, ""},
		{"a user of the namespace", one, within(one), true, true, ""},
		{"a stranger to the namespace", other, within(one), false, true, "does not know"},
		{"no user of the namespace is known", self, unmapped, false, false, "does not know"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.needRoot && self != 0 {
				t.Skip("not root")
			}
			name := fmt.Sprintf("@ethereal-test-%d-%d", os.Getpid(), i)
			lis := listenAs(t, name, tt.listener)
			var stderr strings.Builder
			c := exec.Command(exe)
			c.Env, c.Stderr, c.SysProcAttr = append(os.Environ(), "ETHEREAL_NIC="+name), &stderr, tt.program
			if err := c.Start(); err != nil {
				if tt.program != nil && tt.program.Cloneflags != 0 {
					t.Skipf("no user namespaces here: %v", err)
				}
				t.Fatal(err)
			}
			got := given(t, lis)
			end := time.AfterFunc(time.Minute, func() { c.Process.Kill() }) //nolint:errcheck // it has ended
			err := c.Wait()                                                 // the device does not answer, so none opens it
			end.Stop()
			if code := c.ProcessState.ExitCode(); code != 1 {
				t.Fatalf("%v: %s", err, stderr.String())
			}
			if got != tt.trusts || tt.says == "" != (stderr.Len() == 0) || !strings.Contains(stderr.String(), tt.says) {
				t.Errorf("memory given: %v, want %v; it says %q, want %q", got, tt.trusts, stderr.String(), tt.says)
			}
		})
	}
}
