package live

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
	"github.com/ethereal-fabric/ethereal/testbed/deployment"
)

// nobody is another user.
const nobody = 65534

// asNobody calls f as another user. It takes root.
func asNobody(t *testing.T, f func() error) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if _, _, err := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody); err != 0 {
			done <- err
			return
		}
		done <- f()
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// sharedTemp sets TMPDIR to a folder that each user may make files in, as /tmp is.
func sharedTemp(t *testing.T) string {
	t.Helper()
	systemtest.Only(t)
	if os.Geteuid() != 0 {
		t.Skip("to act as another user takes root")
	}
	tmp, err := os.MkdirTemp("/tmp", "ethereal-test-") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(tmp) })
	if err := os.Chmod(tmp, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", tmp)
	t.Chdir(t.TempDir())
	return tmp
}

// trap listens at a UNIX socket, and counts who connects.
func trap(t *testing.T, path string, met *atomic.Int64) error {
	lis, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	t.Cleanup(func() { lis.Close() })
	go func() {
		for {
			c, err := lis.Accept()
			if err != nil {
				return
			}
			met.Add(1)
			json.NewEncoder(c).Encode(answer{}) //nolint:errcheck // it is a trap
			c.Close()                           //nolint:errcheck // as above
		}
	}()
	return os.Chmod(path, 0o777)
}

// TestStrangersFolder: folders that another user makes under the names of this user's are not believed, not locked, not
// written to and not waited for.
func TestStrangersFolder(t *testing.T) {
	tmp := sharedTemp(t)
	var met atomic.Int64
	target := filepath.Join(t.TempDir(), "victim")
	dir := filepath.Join(tmp, deployment.LivePrefix+"1-evil")
	asNobody(t, func() error {
		d := &deployment.File{
			Fabric: "fabric.yaml", Targets: "targets.yaml", Admin: "unix:" + filepath.Join(dir, "admin.sock"), Token: "/etc/shadow", Hosts: []string{"h0.sock"},
		}
		held, err := os.Open(tmp)
		if err == nil {
			t.Cleanup(func() { held.Close() })
			err = unix.Flock(int(held.Fd()), unix.LOCK_EX)
		}
		return errors.Join(err, os.Mkdir(dir, 0o755), trap(t, filepath.Join(dir, exploreSocket), &met), trap(t, filepath.Join(dir, "admin.sock"), &met),
			d.Write(filepath.Join(dir, deployment.FileName)), os.Chmod(filepath.Join(dir, deployment.FileName), 0o644),
			os.Symlink(target, filepath.Join(dir, folderLock)), os.Symlink(dir, filepath.Join(tmp, deployment.LivePrefix+"2-link")))
	})
	met.Store(0)
	_, exec := Exec("h0", []string{"true"})
	_, mpirun := (&MPI{}).Run([]string{"true"})
	_, status := StatusOf(t.Context())
	for what, err := range map[string]error{"exec": exec, "mpirun": mpirun, "status": status, "down": Down(t.Context(), os.Stderr)} {
		if err == nil || !strings.Contains(err.Error(), "no fabric of this user is up, and 2 folders ethereal-live-*") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, d := range deployment.Running() {
		if strings.HasPrefix(d.Fabric, tmp) {
			t.Errorf("the stranger's fabric is believed: %+v", d)
		}
	}
	own, err := newFolder() // neither waits nor follows a link
	if err != nil {
		t.Fatal(err)
	}
	defer own.close() //nolint:errcheck // the test is over
	if _, err := os.Lstat(target); err == nil {
		t.Error("the stranger's link was followed")
	}
	if _, err := os.Lstat(dir); err != nil {
		t.Errorf("the stranger's folder is gone: %v", err)
	}
	if _, _, err := lockFolder(dir); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("belongs to user %d", nobody)) {
		t.Errorf("lock: %v", err)
	}
	if n := met.Load(); n > 0 {
		t.Errorf("%d connections to a stranger's sockets", n)
	}
}

// TestStrangersSocket: neither end of a fabric's socket believes a process of another user, wherever the socket is.
func TestStrangersSocket(t *testing.T) {
	sharedTemp(t)
	own, err := newFolder()
	if err != nil {
		t.Fatal(err)
	}
	defer own.close() //nolint:errcheck // the test is over
	if err := os.Chmod(own.path, 0o777); err != nil {
		t.Fatal(err)
	}
	var met atomic.Int64
	socket := filepath.Join(own.path, exploreSocket)
	asNobody(t, func() error { return trap(t, socket, &met) })
	if err := os.Chmod(own.path, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Exec("h0", []string{"true"}); err == nil || !strings.Contains(err.Error(), "a process of user 65534 is at the other end") {
		t.Errorf("a stranger's socket: %v", err)
	}
	if err := os.Remove(socket); err != nil {
		t.Fatal(err)
	}
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 1, HostsPerToR: 1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	kept := make(chan error, 1)
	go func() { kept <- (&Fabric{dir: own.path, f: f}).Keep(ctx) }()
	for !isListening(socket) {
		runtime.Gosched()
	}
	if err := os.Chmod(socket, 0o777); err != nil {
		t.Fatal(err)
	}
	asNobody(t, func() error {
		c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
		if err != nil {
			return err
		}
		defer c.Close() //nolint:errcheck // all is said
		a, err := ask(c, order{Down: true}, nil, nil)
		if err == nil || !strings.Contains(err.Error(), "a process of user 65534 is at the other end") {
			return fmt.Errorf("a stranger's order: %+v, %w", a, err)
		}
		return nil
	})
	if s, err := StatusOf(ctx); err != nil || s.Hosts != 2 {
		t.Errorf("status: %+v, %v", s, err)
	}
	cancel()
	if err := <-kept; err != nil {
		t.Error(err)
	}
}

// TestDownWaits: where the fabric's owner does not end, live down says whom it waits for, and ends when asked to.
func TestDownWaits(t *testing.T) {
	sharedTemp(t)
	own, err := newFolder()
	if err != nil {
		t.Fatal(err)
	}
	defer own.close() //nolint:errcheck // the test is over
	kept := make(chan error, 1)
	go func() { kept <- (&Fabric{dir: own.path}).Keep(t.Context()) }()
	for !isListening(filepath.Join(own.path, exploreSocket)) {
		runtime.Gosched()
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	said := &ending{say: cancel}
	err = Down(ctx, said)
	if want := fmt.Sprintf("waiting for process %d", os.Getpid()); !errors.Is(err, context.Canceled) || !strings.Contains(said.text.String(), want) {
		t.Errorf("%q is missing in %q; %v", want, said.text.String(), err)
	}
	if err := <-kept; err != nil {
		t.Error(err)
	}
}

// ending calls say when something is written.
type ending struct {
	text bytes.Buffer
	say  func()
}

func (e *ending) Write(b []byte) (int, error) {
	defer e.say()
	return e.text.Write(b)
}
