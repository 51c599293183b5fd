package live_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/internal/systemtest"
)

// running is a process of a fabric, and what it takes to start it again where it was.
type running struct {
	pid  int
	args []string
	env  []string
	net  *os.File
	mnt  *os.File
}

// findRunning returns the process of the fabric in dir whose command has all words, NUL between its arguments.
func findRunning(t *testing.T, dir string, words ...string) running {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		args := strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
		if err != nil || !strings.Contains(string(b), dir) || args[0] == "nsenter" || slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(string(b), w) }) {
			continue
		}
		proc := filepath.Dir(name)
		pid, err := strconv.Atoi(filepath.Base(proc))
		if err != nil {
			t.Fatal(err)
		}
		env, err := os.ReadFile(proc + "/environ")
		if err != nil {
			t.Fatal(err)
		}
		r := running{pid: pid, args: args, env: strings.Split(strings.TrimSuffix(string(env), "\x00"), "\x00")}
		if r.net, err = os.Open(proc + "/ns/net"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.net.Close() })
		if r.mnt, err = os.Open(proc + "/ns/mnt"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.mnt.Close() })
		return r
	}
	t.Fatalf("no process of the fabric has %q", words)
	return running{}
}

// again ends a process by a signal and starts it again; it runs until the test ends.
func (r *running) again(t *testing.T, sig syscall.Signal) {
	t.Helper()
	fd, err := unix.PidfdOpen(r.pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	if err := syscall.Kill(r.pid, sig); err != nil {
		t.Fatal(err)
	}
	// Readable when all threads have ended: before that the process may still have its sockets.
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 20_000); n != 1 {
		t.Fatalf("process %d does not end by %v: %v", r.pid, sig, err)
	}
	var log bytes.Buffer
	c := exec.Command("nsenter", append([]string{"--net=/proc/self/fd/3", "--mount=/proc/self/fd/4"}, r.args...)...)
	c.Env, c.ExtraFiles, c.Stdout, c.Stderr = r.env, []*os.File{r.net, r.mnt}, &log, &log
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	r.pid = c.Process.Pid
	t.Cleanup(func() {
		c.Process.Kill() //nolint:errcheck // it may have ended
		c.Wait()         //nolint:errcheck // it was killed
		if t.Failed() {
			t.Logf("%s: %s", r.args[1:3], log.String())
		}
	})
}

// TestRestart ends each kind of a fabric's processes by SIGKILL and by SIGTERM and starts it again: ib_write_bw between
// two hosts then passes, in both directions. No ToR is among them: the live world takes a killed switch's neighbours'
// interfaces down, a host's only one too, as a switch without power does.
func TestRestart(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("nsenter needs root")
	}
	systemtest.Program(t, "nsenter", "", "Debian: util-linux")
	systemtest.Program(t, "ib_write_bw", "", "Debian: perftest")
	command, tmp := exploring(t, leafSpine(4, 1))
	bw := func(from, to string) error {
		var said bytes.Buffer
		server := command("exec", to, "--", "timeout", "20", "ib_write_bw", "-n", "200", "-s", "16384")
		server.Stdout, server.Stderr = &said, &said
		if err := server.Start(); err != nil {
			return err
		}
		var out []byte
		var err error
		for range 30 { // until the server listens
			time.Sleep(100 * time.Millisecond)
			out, err = command("exec", from, "--", "timeout", "20", "ib_write_bw", "-n", "200", "-s", "16384", to).CombinedOutput()
			if err == nil || !notListening(string(out)) {
				break
			}
		}
		if waited := server.Wait(); err == nil && waited != nil { // it ends after its client, or by its timeout
			return fmt.Errorf("server: %w: %s", waited, said.String())
		}
		if err != nil {
			return fmt.Errorf("client: %w: %s; server: %s", err, out, said.String())
		}
		return nil
	}
	both := func(after string) {
		t.Helper()
		for _, d := range [][2]string{{"h0", "h1"}, {"h1", "h0"}} {
			began := time.Now()
			if err := bw(d[0], d[1]); err != nil {
				t.Errorf("after %s: %s to %s: %v", after, d[0], d[1], err)
			} else {
				t.Logf("after %s: ib_write_bw %s to %s passes in %v", after, d[0], d[1], time.Since(began).Round(time.Millisecond))
			}
		}
	}
	both("the start")
	processes := map[string]running{
		"host agent h0":    findRunning(t, tmp, "\x00agent\x00", "\x00--host\x00h0\x00"),
		"switch spine0":    findRunning(t, tmp, "\x00switch\x00", "/spine0.sock"),
		"controller":       findRunning(t, tmp, "\x00controller\x00"),
		"host agent of h1": findRunning(t, tmp, "\x00agent\x00", "\x00--host\x00h1\x00"),
	}
	for _, name := range []string{"host agent h0", "host agent of h1", "switch spine0", "controller"} {
		p := processes[name]
		for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
			p.again(t, sig)
			both(fmt.Sprintf("%v of %s", sig, name))
		}
	}
}
